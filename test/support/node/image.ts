/** Images without a container engine: deploy/Dockerfile, run on this machine, and a root folder as an OCI layout. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  createReadStream,
  existsSync,
  mkdirSync,
  mkdtempDisposableSync,
  readFileSync,
  realpathSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';

import { PAUSE_IMAGE } from './node-files.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..', '..', '..');

export interface ImageConfig {
  readonly Env?: readonly string[];
  readonly User?: string;
  readonly WorkingDir?: string;
  readonly Entrypoint?: readonly string[];
  readonly Cmd?: readonly string[];
}

const MEDIA = 'application/vnd.oci.image';

/** Packs a root folder into an OCI image layout that `ctr images import` reads. */
export async function packImage(
  root: string,
  name: string,
  config: ImageConfig,
  archive: string,
): Promise<void> {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'gatehouse-image-'));
  const work = folder.path;
  const blobs = join(work, 'blobs', 'sha256');
  mkdirSync(blobs, { recursive: true });
  const describe = (type: string, hex: string, size: number) => ({
    mediaType: `${MEDIA}.${type}`,
    digest: `sha256:${hex}`,
    size,
  });
  const put = (type: string, content: object) => {
    const text = JSON.stringify(content);
    const hex = createHash('sha256').update(text).digest('hex');
    writeFileSync(join(blobs, hex), text);
    return describe(type, hex, Buffer.byteLength(text));
  };
  const tar = join(work, 'layer');
  const owned = ['--owner=0', '--group=0', '--numeric-owner', '--sort=name'];
  await run('tar', [...owned, '-C', root, '-cf', tar, '.']);
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(tar)) hash.update(chunk as Buffer);
  const hex = hash.digest('hex');
  renameSync(tar, join(blobs, hex));
  const layer = describe('layer.v1.tar', hex, statSync(join(blobs, hex)).size);
  const manifest = put('manifest.v1+json', {
    schemaVersion: 2,
    mediaType: `${MEDIA}.manifest.v1+json`,
    config: put('config.v1+json', {
      architecture: 'amd64',
      os: 'linux',
      config,
      rootfs: { type: 'layers', diff_ids: [layer.digest] },
    }),
    layers: [layer],
  });
  const annotations = { 'io.containerd.image.name': name };
  writeFileSync(
    join(work, 'index.json'),
    JSON.stringify({ schemaVersion: 2, manifests: [{ ...manifest, annotations }] }),
  );
  writeFileSync(join(work, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
  await run('tar', ['-C', work, '-cf', archive, 'oci-layout', 'index.json', 'blobs']);
}

/** The image of the container that holds the namespaces of a pod; with a shell. @throws Error without busybox */
export async function packPause(archive: string): Promise<void> {
  const busybox = '/bin/busybox';
  if (!existsSync(busybox)) throw new Error('there is no /bin/busybox: apt-get install busybox-static');
  using folder = mkdtempDisposableSync(join(tmpdir(), 'gatehouse-pause-'));
  const root = folder.path;
  mkdirSync(join(root, 'bin'));
  for (const name of ['busybox', 'sh', 'sleep']) cpSync(busybox, join(root, 'bin', name));
  await packImage(root, PAUSE_IMAGE, { Entrypoint: ['/bin/sleep', '2147483647'] }, archive);
}

interface Instruction {
  readonly name: string;
  readonly text: string;
}

export const parseDockerfile = (source: string): readonly Instruction[] =>
  source
    .replaceAll(/^\s*#.*\n/gm, '')
    .replaceAll(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const [, name = '', text = ''] = /^(\w+)\s+(.*)$/.exec(line.trim()) ?? [];
      return { name: name.toUpperCase(), text };
    });

/** Runs the steps of deploy/Dockerfile on this machine. @throws Error for an instruction that it does not know */
export async function buildImage(name: string, archive: string): Promise<void> {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'gatehouse-build-'));
  const stages = new Map<string, string>();
  let [root, place]: [string, string] = ['', '/'];
  let config: ImageConfig = {};
  for (const { name: instruction, text } of parseDockerfile(
    readFileSync(join(ROOT, 'deploy', 'Dockerfile'), 'utf8'),
  ))
    switch (instruction) {
      case 'FROM': {
        const [, stage = 'last'] = / AS (\S+)$/i.exec(text) ?? [];
        root = join(folder.path, stage);
        [place, config] = ['/', {}];
        stages.set(stage, root);
        mkdirSync(root);
        break;
      }
      case 'WORKDIR':
        place = text;
        config = { ...config, WorkingDir: text };
        mkdirSync(join(root, place), { recursive: true });
        break;
      case 'COPY':
        copy(text, stages, (path) => join(root, resolve(place, path)));
        break;
      case 'RUN':
        await run('bash', ['-c', text], { cwd: join(root, place), maxBuffer: 64 * 2 ** 20 });
        break;
      case 'ENV':
        config = { ...config, Env: [...(config.Env ?? []), text] };
        break;
      case 'USER':
        config = { ...config, User: text };
        break;
      case 'ENTRYPOINT':
        config = { ...config, Entrypoint: JSON.parse(text) as readonly string[] };
        break;
      case 'CMD':
        config = { ...config, Cmd: JSON.parse(text) as readonly string[] };
        break;
      case 'EXPOSE':
        break;
      default:
        throw new Error(`deploy/Dockerfile: ${instruction} is not known here`);
    }
  await addBase(root);
  await packImage(root, name, config, archive);
}

function copy(text: string, stages: ReadonlyMap<string, string>, placed: (path: string) => string): void {
  const words = text.split(/\s+/);
  const from = words[0]?.startsWith('--from=') === true ? words.shift()?.slice('--from='.length) : undefined;
  const to = words.pop() ?? '';
  for (const source of words) {
    const path = join(from === undefined ? ROOT : (stages.get(from) ?? ''), source);
    const isFolder = statSync(path).isDirectory();
    // A folder is copied as the destination, a file into it if it ends with a slash.
    const target = isFolder || !to.endsWith('/') ? placed(to) : join(placed(to), basename(source));
    cpSync(path, !isFolder && to === './' ? join(placed('.'), basename(source)) : target, {
      recursive: true,
      verbatimSymlinks: true,
    });
  }
}

/** What the image needs of gcr.io/distroless/nodejs24: Node, its libraries, users, and folders. */
async function addBase(root: string): Promise<void> {
  const node = process.execPath;
  const place = (path: string, content: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    cpSync(realpathSync(content), join(root, path));
  };
  place('/nodejs/bin/node', node);
  const { stdout } = await run('ldd', [node]);
  for (const [, library = ''] of stdout.matchAll(/(\/\S+) \(0x/g)) place(library, library);
  mkdirSync(join(root, 'etc'), { recursive: true });
  writeFileSync(
    join(root, 'etc', 'passwd'),
    'root:x:0:0::/root:/sbin/nologin\nnonroot:x:65532:65532::/home/nonroot:/sbin/nologin\n',
  );
  mkdirSync(join(root, 'tmp'), { mode: 0o1777 });
}
