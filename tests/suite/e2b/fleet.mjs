// The SDK and the gateway of a cluster (tests/suite/cluster): sandboxes of a warm pool, what is said of them, pause and connect, what runs again by itself, and undo.
import assert from 'node:assert/strict'
import { Sandbox, SandboxNotFoundError } from 'e2b'

const ask = async (sandbox, method, what, body) => {
  const res = await fetch(`${process.env.E2B_API_URL}/sandboxes/${sandbox.sandboxId}/${what}`, {
    method, headers: { 'X-API-Key': process.env.E2B_API_KEY }, body: body && JSON.stringify(body),
  })
  assert.equal(res.status, 200, await res.clone().text())
  return res.json()
}
const made = []
const create = async (options) => {
  made.push(await Sandbox.create('sandbox', { timeoutMs: 600_000, ...options }))
  return made.at(-1)
}
try {
  const [a, b] = await Promise.all([
    create({ metadata: { user: 'one', 'odd & key': 'odd = value' }, envs: { GREETING: 'hello' } }), create({ metadata: { user: 'two' }, lifecycle: { onTimeout: 'pause', autoResume: true } }),
  ])
  assert.equal((await a.commands.run('echo $GREETING >file; cat file')).stdout, 'hello\n')
  assert.equal(await a.files.read('file'), 'hello\n')
  assert.equal(await b.files.exists('file'), false)

  const list = async (query) => (await Sandbox.list({ query }).nextItems()).map((s) => s.sandboxId)
  assert.deepEqual(await list({ metadata: { user: 'one', 'odd & key': 'odd = value' } }), [a.sandboxId])
  const pages = Sandbox.list({ limit: 1 })
  const seen = []
  while (pages.hasNext) seen.push(...(await pages.nextItems()).map((s) => s.sandboxId))
  assert.deepEqual(seen.sort(), [a.sandboxId, b.sandboxId].sort())

  const info = await a.getInfo()
  assert.deepEqual([info.state, info.templateId, info.metadata.user], ['running', 'sandbox', 'one'])
  await a.setTimeout(1_800_000)
  assert.ok((await a.getInfo()).endAt.getTime() - info.endAt.getTime() > 1_000_000)

  const [used] = await a.getMetrics()
  assert.ok(used.cpuCount > 0 && used.memTotal > 0 && used.diskTotal > 0)

  // The strongest reset: an undo.
  await ask(a, 'POST', 'marks', { name: 'start' })
  await a.commands.run('rm file; mkdir tree; echo x >tree/x')
  await ask(a, 'POST', 'undo', { to: 'start' })
  assert.deepEqual([await a.files.read('file'), await a.files.exists('tree')], ['hello\n', false])

  // Pause ends the pod; its volumes stay, and the history with them.
  assert.equal(await a.pause(), true)
  assert.equal(await a.pause(), false)
  assert.equal(await a.isRunning(), false)
  await assert.rejects(a.commands.run('true'))
  assert.deepEqual(await list({ state: ['paused'] }), [a.sandboxId])
  const again = await Sandbox.connect(a.sandboxId, { timeoutMs: 600_000 })
  assert.equal(await again.files.read('file'), 'hello\n')
  assert.ok((await ask(again, 'GET', 'history')).steps.length > 0)

  // One that was made so runs again when it is used.
  await b.files.write('kept', 'still here')
  assert.equal(await b.pause(), true)
  assert.equal(await b.isRunning(), false)
  assert.deepEqual(await b.getMetrics(), [])
  assert.equal((await b.commands.run('cat kept')).stdout, 'still here')
  assert.deepEqual([(await b.getInfo()).state, (await b.getInfo()).lifecycle.autoResume], ['running', true])

  assert.equal(await b.kill(), true)
  assert.equal(await b.kill(), false)
  await assert.rejects(b.getInfo(), SandboxNotFoundError)
  assert.deepEqual(await list(), [a.sandboxId])
} finally {
  for (const s of made) await s.kill()
}
