// Commands through the SDK: output, status, streams, input, environment, directories, time, and those that run on.
import assert from 'node:assert/strict'
import { Sandbox, CommandExitError, NotFoundError, TimeoutError, SandboxError } from 'e2b'

const sandbox = await Sandbox.create({ envs: { FROM: 'create' }, timeoutMs: 120_000 })
try {
  const hi = await sandbox.commands.run('echo hi; echo bad >&2')
  assert.deepEqual([hi.stdout, hi.stderr, hi.exitCode], ['hi\n', 'bad\n', 0])

  await assert.rejects(sandbox.commands.run('echo out; exit 7'), (err) => err instanceof CommandExitError && err.exitCode === 7 && err.stdout === 'out\n')

  const seen = []
  await sandbox.commands.run('for i in 1 2 3; do echo line $i; sleep 0.05; done', { onStdout: (s) => { seen.push(s) } })
  assert.equal(seen.join(''), 'line 1\nline 2\nline 3\n')
  assert.ok(seen.length > 1, 'the output came as one piece')

  assert.equal((await sandbox.commands.run('echo $FROM $ASKED', { envs: { ASKED: 'run' } })).stdout, 'create run\n')
  assert.equal((await sandbox.commands.run('echo $FROM', { envs: { FROM: 'run' } })).stdout, 'run\n')

  const home = (await sandbox.commands.run('pwd')).stdout.trim()
  assert.equal((await sandbox.commands.run('echo $HOME')).stdout.trim(), home)
  await sandbox.commands.run('mkdir -p deep/er')
  assert.equal((await sandbox.commands.run('pwd', { cwd: 'deep/er' })).stdout.trim(), home + '/deep/er')
  assert.equal((await sandbox.commands.run('pwd', { cwd: '/usr' })).stdout, '/usr\n')
  await assert.rejects(sandbox.commands.run('pwd', { cwd: '/nowhere' }), SandboxError)

  const big = await sandbox.commands.run('head -c 3000000 /dev/zero | tr "\\0" x; echo; echo ende')
  assert.equal(big.stdout.length, 3_000_006)

  // Input.
  const cat = await sandbox.commands.run('cat; echo end', { background: true, stdin: true })
  await cat.sendStdin('one ')
  await sandbox.commands.sendStdin(cat.pid, 'two\n')
  await cat.closeStdin()
  assert.equal((await cat.wait()).stdout, 'one two\nend\n')

  // In the background: the list, another that follows it, and a kill.
  const late = await sandbox.commands.run('while [ ! -e go ]; do sleep 0.02; done; echo gone on; exec sleep 1000', { background: true })
  assert.ok((await sandbox.commands.list()).some((p) => p.pid === late.pid && p.cmd === '/bin/bash'))
  let heard
  const said = new Promise((resolve) => { heard = resolve })
  const follower = await sandbox.commands.connect(late.pid, { onStdout: (s) => heard(s) })
  await sandbox.files.write('go', '')
  assert.equal(await said, 'gone on\n')
  await follower.disconnect()
  assert.equal(await late.kill(), true)
  await assert.rejects(late.wait(), (err) => err instanceof CommandExitError && err.exitCode !== 0)
  assert.equal(await sandbox.commands.kill(late.pid), false)
  await assert.rejects(sandbox.commands.connect(late.pid), NotFoundError)

  // Its time is up: the command is ended.
  await assert.rejects(sandbox.commands.run('echo $$ >pid; exec sleep 1000', { timeoutMs: 300 }), TimeoutError)
  await sandbox.commands.run('while kill -0 $(cat pid) 2>/dev/null; do sleep 0.05; done')

  // Who disconnects does not end a command.
  const on = await sandbox.commands.run('sleep 0.2; echo done >after', { background: true })
  await on.disconnect()
  await sandbox.commands.run('while [ ! -s after ]; do sleep 0.02; done')

  await assert.rejects(sandbox.commands.run('id', { user: 'root' }), /no root/)

  // Several at once.
  const all = await Promise.all([1, 2, 3, 4, 5].map((n) => sandbox.commands.run(`sleep 0.1; echo ${n}`)))
  assert.deepEqual(all.map((r) => r.stdout), ['1\n', '2\n', '3\n', '4\n', '5\n'])
} finally {
  await sandbox.kill()
}
assert.equal(await sandbox.isRunning(), false)
