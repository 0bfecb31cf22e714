// Files through the SDK, in the folder and outside of it.
import assert from 'node:assert/strict'
import { Sandbox, FileNotFoundError, FileType, FilesystemEventType, InvalidArgumentError } from 'e2b'

const sandbox = await Sandbox.create({ timeoutMs: 120_000 })
const { files } = sandbox
try {
  const home = (await sandbox.commands.run('pwd')).stdout.trim()
  const info = await files.write('dir/one.txt', 'text')
  assert.deepEqual([info.name, info.type, info.path], ['one.txt', 'file', home + '/dir/one.txt'])
  assert.equal(await files.read('dir/one.txt'), 'text')
  assert.equal((await sandbox.commands.run('cat dir/one.txt')).stdout, 'text')
  await files.write('dir/one.txt', '')
  assert.equal(await files.read('dir/one.txt'), '')

  const binary = new Uint8Array(70_000).map((_, i) => i % 251)
  await files.write('binary', binary.buffer)
  assert.deepEqual(Buffer.from(await files.read('binary', { format: 'bytes' })), Buffer.from(binary))
  await files.write('streamed', new Blob([binary]).stream())
  assert.equal((await sandbox.commands.run('cmp binary streamed && echo same')).stdout, 'same\n')
  await files.write('packed', 'x'.repeat(100_000), { gzip: true })
  assert.equal((await sandbox.commands.run('wc -c <packed')).stdout.trim(), '100000')
  const chunks = []
  for await (const c of await files.read('binary', { format: 'stream' })) chunks.push(c)
  assert.deepEqual(Buffer.concat(chunks), Buffer.from(binary))

  for (const name of ["with a space", "ümläut 😀", "quo'te\"", '-dash', 'per%cent&and=is', 'plus+hash#']) {
    await files.write('names/' + name, name)
    assert.equal(await files.read('names/' + name), name)
    assert.equal((await sandbox.commands.run('cat -- "$N"', { envs: { N: name }, cwd: 'names' })).stdout, name)
  }
  assert.equal((await files.list('names')).length, 6)

  const many = await files.writeFiles([{ path: 'm/1', data: 'a' }, { path: 'm/2', data: 'b' }])
  assert.deepEqual(many.map((f) => f.path), [home + '/m/1', home + '/m/2'])
  assert.equal(await files.makeDir('m/sub'), true)
  assert.equal(await files.makeDir('m/sub'), false)
  assert.deepEqual((await files.list('m')).map((e) => [e.name, e.type]), [['1', 'file'], ['2', 'file'], ['sub', 'dir']])
  assert.ok((await files.list('.', { depth: 2 })).some((e) => e.path === home + '/m/sub'))
  await assert.rejects(files.list('m/1'), InvalidArgumentError)

  assert.equal(await files.exists('m/1'), true)
  assert.equal(await files.exists('m/none'), false)
  await assert.rejects(files.read('m/none'), FileNotFoundError)
  await assert.rejects(files.getInfo('m/none'), FileNotFoundError)
  await assert.rejects(files.rename('m/none', 'm/x'), FileNotFoundError)
  assert.equal((await files.rename('m/1', 'm/moved')).path, home + '/m/moved')
  await sandbox.commands.run('chmod 640 m/moved && ln -s moved m/link')
  const got = await files.getInfo('m/moved')
  assert.deepEqual([got.size, got.mode, got.permissions, got.type], [1, 0o640, '-rw-r-----', FileType.FILE])
  assert.ok(Math.abs(got.modifiedTime - Date.now()) < 3_600_000)
  assert.equal((await files.getInfo('m/link')).symlinkTarget, home + '/m/moved')
  await files.remove('m')
  await files.remove('m')
  assert.equal(await files.exists('m'), false)

  // Outside of the folder: what commands see.
  await files.write('/tmp/outside', 'from the API')
  assert.equal((await sandbox.commands.run('cat /tmp/outside; echo from a command >/tmp/back')).stdout, 'from the API')
  assert.equal(await files.read('/tmp/back'), 'from a command\n')
  await assert.rejects(files.write('/usr/x', ''), /.+/)
  assert.equal(await files.exists('/etc/shadow-that-is-not'), false)

  // A watch.
  const events = []
  let wake = () => {}
  const watch = await files.watchDir('dir', (e) => { events.push(e); wake() }, { recursive: true })
  await files.write('dir/new', 'x')
  await sandbox.commands.run('mkdir dir/sub; rm dir/new')
  const seen = (type, name) => events.some((e) => e.type === type && e.name === name)
  while (!(seen(FilesystemEventType.CREATE, 'new') && seen(FilesystemEventType.REMOVE, 'new') && seen(FilesystemEventType.CREATE, 'sub'))) {
    await new Promise((resolve) => { wake = resolve })
  }
  await watch.stop()

  // Signed addresses.
  await files.write('signed', 'by its address')
  const url = await sandbox.downloadUrl('signed', { useSignatureExpiration: 60 })
  assert.equal(await (await fetch(url)).text(), 'by its address')
  assert.equal((await fetch(url.replace('signed', 'binary'))).status, 401)
  const form = new FormData()
  form.append('file', new Blob(['uploaded']), 'up')
  assert.equal((await fetch(await sandbox.uploadUrl('up'), { method: 'POST', body: form })).status, 200)
  assert.equal(await files.read('up'), 'uploaded')

  if (process.env.LARGE) {
    const size = 100 << 20
    await files.write('large', new Blob([new Uint8Array(size)]).stream())
    assert.equal((await files.read('large', { format: 'bytes' })).length, size)
  }
} finally {
  await sandbox.kill()
}
