// Times what the SDK does, for tests/bench: commands.run('true') COUNT times, and each duration in milliseconds as a line. Its first is left out.
import { Sandbox } from 'e2b'

const sandbox = await Sandbox.create({ timeoutMs: 600_000 })
try {
  await sandbox.commands.run('true')
  for (let i = 0; i < Number(process.env.COUNT); i++) {
    const begin = performance.now()
    await sandbox.commands.run('true')
    console.log(performance.now() - begin)
  }
} finally {
  await sandbox.kill()
}
