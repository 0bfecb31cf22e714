// A dev server in a sandbox, reached at the name that getHost gives.
import assert from 'node:assert/strict'
import http from 'node:http'
import { Sandbox } from 'e2b'

const get = (host, path) => new Promise((resolve, reject) => {
  const [, port] = process.env.E2B_API_URL.split('://')[1].split(':')
  const r = http.get({ host: '127.0.0.1', port, path, headers: { Host: host } }, (res) => {
    let text = ''
    res.on('data', (b) => { text += b })
    res.on('end', () => resolve([res.statusCode, text]))
  })
  r.on('error', reject)
})

const sandbox = await Sandbox.create({ timeoutMs: 120_000 })
try {
  await sandbox.files.write('index.html', '<h1>served</h1>')
  const server = await sandbox.commands.run('exec python3 -u -m http.server 8000', { background: true, timeoutMs: 0 })
  server.wait().catch(() => {})
  const host = sandbox.getHost(8000)
  let status, text
  do [status, text] = await get(host, '/index.html'); while (status === 502)
  assert.deepEqual([status, text], [200, '<h1>served</h1>'])
  assert.equal((await get(host, '/none'))[0], 404)
  assert.equal((await get(host.replace(sandbox.sandboxId, 'a'.repeat(20)), '/'))[0], 502)
  await server.kill()
} finally {
  await sandbox.kill()
}
