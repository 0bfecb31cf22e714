// What E2B has not: undo, redo, restore, history, diff and marks, by fetch.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'

const sandbox = await Sandbox.create({ timeoutMs: 120_000 })
const ask = async (method, what, body) => {
  const res = await fetch(`${process.env.E2B_API_URL}/sandboxes/${sandbox.sandboxId}/${what}`, {
    method, headers: { 'X-API-Key': process.env.E2B_API_KEY }, body: body && JSON.stringify(body),
  })
  return [res.status, await res.json()]
}
try {
  await sandbox.commands.run('mkdir -p tree/{a,b}; for i in $(seq 50); do echo $i >tree/a/$i; done')
  const [, marks] = await ask('POST', 'marks', { name: 'full' })
  assert.deepEqual(marks.marks.map((m) => m.name), ['full'])
  await sandbox.commands.run('rm -rf tree')
  await sandbox.files.write('file', 'by the API')
  const [, history] = await ask('GET', 'history?limit=10')
  assert.deepEqual(history.steps.map((s) => s.type), ['api', 'command', 'command'])
  const [, diff] = await ask('GET', `diff?step_id=${history.steps[1].step_id}`)
  assert.ok(diff.diff.includes('-50'))
  const [status, undone] = await ask('POST', 'undo', { to: 'full' })
  assert.deepEqual([status, undone.steps.length], [200, 2])
  assert.equal((await sandbox.files.list('tree/a')).length, 50)
  assert.equal(await sandbox.files.exists('file'), false)
  assert.equal((await ask('POST', 'redo', { count: 2 }))[0], 200)
  assert.equal(await sandbox.files.exists('tree'), false)
  assert.equal((await ask('POST', 'restore', { path: 'tree', step_id: history.steps[1].step_id }))[0], 200)
  assert.equal(await sandbox.files.read('tree/a/7'), '7\n')

  // Busy is 409, and says so.
  let begun
  const written = new Promise((resolve) => { begun = resolve })
  const busy = await sandbox.commands.run('echo x >tree/a/1; echo written; sleep 1000', { background: true, onStdout: begun })
  busy.wait().catch(() => {})
  await written
  const [code, why] = await ask('POST', 'undo')
  assert.equal(code, 409)
  assert.equal(why.data.code, 'busy')
  await busy.kill()
  let after
  do [after] = await ask('POST', 'undo'); while (after === 409)
  assert.equal(after, 200)
  assert.equal(await sandbox.files.read('tree/a/1'), '1\n')
  assert.equal((await ask('POST', 'undo', { count: 1000 }))[0], 409)
  assert.equal((await ask('POST', 'undo', { counts: 1 }))[0], 400)
} finally {
  await sandbox.kill()
}
