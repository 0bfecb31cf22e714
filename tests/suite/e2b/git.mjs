// git through the SDK, which runs it as commands.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'

const sandbox = await Sandbox.create({ timeoutMs: 120_000 })
try {
  await sandbox.git.init('repo', { initialBranch: 'main' })
  await sandbox.files.write('repo/a', 'one\n')
  await sandbox.git.configureUser('A', 'a@example.org', { scope: 'local', path: 'repo' })
  await sandbox.git.add('repo')
  await sandbox.git.commit('repo', 'first', { authorName: 'A', authorEmail: 'a@example.org' })
  await sandbox.git.createBranch('repo', 'side')
  await sandbox.files.write('repo/b', 'two\n')
  const status = await sandbox.git.status('repo')
  assert.equal(status.currentBranch, 'side')
  assert.ok(JSON.stringify(status).includes('"b"'))
  assert.deepEqual((await sandbox.git.branches('repo')).branches.sort(), ['main', 'side'])
  await sandbox.git.checkoutBranch('repo', 'main')
  await sandbox.git.clone((await sandbox.commands.run('pwd')).stdout.trim() + '/repo', { path: 'copy' })
  assert.equal(await sandbox.files.read('copy/a'), 'one\n')
} finally {
  await sandbox.kill()
}
