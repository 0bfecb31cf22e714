// A terminal through the SDK.
import assert from 'node:assert/strict'
import { Sandbox } from 'e2b'

const sandbox = await Sandbox.create({ timeoutMs: 120_000 })
try {
  let text = ''
  let wake = () => {}
  const decoder = new TextDecoder()
  const until = async (part) => {
    while (!text.includes(part)) await new Promise((resolve) => { wake = resolve })
  }
  const terminal = await sandbox.pty.create({ cols: 81, rows: 25, envs: { PS1: 'ready> ' }, timeoutMs: 0, onData: (b) => { text += decoder.decode(b, { stream: true }); wake() } })
  const type = (s) => sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode(s))
  await type('stty size; echo $TERM; tty -s && echo "a te"rminal\n')
  await until('25 81')
  await until('xterm-256color')
  await until('a terminal')
  await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 40 })
  await type('stty size\n')
  await until('40 100')
  await type('exit 0\n')
  await terminal.wait()
  const other = await sandbox.pty.create({ cols: 80, rows: 24, timeoutMs: 0, onData: () => {} })
  assert.equal(await sandbox.pty.kill(other.pid), true)
  await assert.rejects(other.wait())
  assert.equal(await sandbox.pty.kill(other.pid), false)
} finally {
  await sandbox.kill()
}
