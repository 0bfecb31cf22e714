import { Sandbox } from 'e2b'

const sandbox = await Sandbox.create({ timeoutMs: 60_000 })
try {
  await sandbox.commands.run('mkdir -p project/src && echo "hello" >project/src/main.txt && cp -r project before')

  // An agent makes a mistake.
  const mistake = await sandbox.commands.run('rm -rf project && ls')
  console.log('after the mistake:', mistake.stdout.trim())

  // One request takes it back.
  const answer = await fetch(`${process.env.E2B_API_URL}/sandboxes/${sandbox.sandboxId}/undo`, {
    method: 'POST',
    headers: { 'X-API-Key': process.env.E2B_API_KEY },
  })
  const undone = await answer.json()
  console.log('undone:', undone.steps[0].command, `(${undone.path_count} paths)`)

  const difference = await sandbox.commands.run('diff -r before project || true')
  console.log('difference:', difference.stdout.trim() || 'none')
} finally {
  await sandbox.kill()
}
