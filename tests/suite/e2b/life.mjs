// The life of sandboxes through the SDK: lists, pause and connect, snapshots, time, and what is not there.
import assert from 'node:assert/strict'
import { Sandbox, SandboxNotFoundError, SandboxError } from 'e2b'

const a = await Sandbox.create({ metadata: { test: 'life', 'odd & key': 'odd = value' }, timeoutMs: 120_000 })
const b = await Sandbox.create({ timeoutMs: 120_000, lifecycle: { onTimeout: 'pause' } })
const made = [a, b]
try {
  const info = await a.getInfo()
  assert.deepEqual([info.state, info.templateId, info.metadata.test], ['running', 'base', 'life'])
  const list = async (query) => (await Sandbox.list({ query }).nextItems()).map((s) => s.sandboxId)
  assert.deepEqual(await list({ metadata: { 'odd & key': 'odd = value' } }), [a.sandboxId])
  const pages = Sandbox.list({ limit: 1 })
  const seen = []
  while (pages.hasNext) seen.push(...(await pages.nextItems()).map((s) => s.sandboxId))
  assert.ok(seen.includes(a.sandboxId) && seen.includes(b.sandboxId))

  // Pause keeps the files, and the history; processes are gone.
  await a.files.write('kept', 'still here')
  const sleeper = await a.commands.run('sleep 1000', { background: true })
  sleeper.wait().catch(() => {})
  assert.equal(await a.pause(), true)
  assert.equal(await a.pause(), false)
  assert.equal(await a.isRunning(), false)
  await assert.rejects(a.commands.run('true'))
  assert.deepEqual(await list({ state: ['paused'] }), [a.sandboxId])
  const again = await Sandbox.connect(a.sandboxId)
  assert.equal(await again.files.read('kept'), 'still here')
  assert.equal((await again.commands.list()).length, 0)

  // A snapshot is what was there, and lives on.
  const snapshot = await a.createSnapshot({ name: 'point' })
  await a.files.write('kept', 'changed')
  const c = await Sandbox.create(snapshot.snapshotId, { timeoutMs: 120_000 })
  made.push(c)
  assert.equal(await c.files.read('kept'), 'still here')
  assert.deepEqual((await a.listSnapshots().nextItems()).map((s) => s.snapshotId), [snapshot.snapshotId])
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), false)
  await assert.rejects(Sandbox.create('point'), SandboxError)

  // Sandboxes do not see each other.
  const other = (await c.commands.run('pwd')).stdout.trim()
  await assert.rejects(a.commands.run(`cat ${other}/kept`))
  await assert.rejects(a.files.read(other + '/kept'))

  // Time: b is paused at its end, c is killed.
  await b.setTimeout(1000)
  await c.setTimeout(1000)
  while (await c.isRunning() || await b.isRunning()) await new Promise((resolve) => setTimeout(resolve, 100))
  await assert.rejects(c.getInfo(), SandboxNotFoundError)
  assert.equal((await b.getInfo()).state, 'paused')
  await assert.rejects(Sandbox.connect(c.sandboxId), SandboxNotFoundError)

  await assert.rejects(a.fork(), /501.*snapshot/)
  await assert.rejects(Sandbox.create({ network: { denyOut: ['1.1.1.1'] } }), /501/)
  assert.ok((await a.getMetrics())[0].cpuCount > 0)

  // Somebody else's token leads nowhere.
  const stolen = new Sandbox({ ...again.connectionConfig, sandboxId: a.sandboxId, envdVersion: '0.6.4', envdAccessToken: 'x'.repeat(43) })
  await assert.rejects(stolen.commands.run('true'), /access token/)
} finally {
  for (const s of made) await s.kill()
}
assert.equal(await a.kill(), false)
