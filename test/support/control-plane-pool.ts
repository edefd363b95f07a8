/** Control planes that test files share, one file at a time. Vitest's main process starts and resets them. */
import { mkdirSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { join } from 'node:path';

import { caOf, get, launchPlane, stopPlane, type Plane, type Site } from './control-plane-site.ts';
import { restoreEtcdSnapshot, takeIdleSnapshot, type EtcdSnapshot } from './etcd.ts';
import { eventually, freePort } from './processes.ts';

const ADDRESS = 'GATEHOUSE_CONTROL_PLANES';

/** Initial content of a cluster: nothing, or the CRDs, the RBAC and the namespace of Gatehouse. */
export type Contents = 'empty' | 'gatehouse';

export interface Borrowed {
  readonly site: Site;
  readonly server: string;
  readonly folder: string;
  readonly auditedBefore: number;
}

/** @returns undefined if no pool runs: the caller starts its own plane */
export async function borrowPlane(contents: Contents): Promise<Borrowed | undefined> {
  const address = process.env[ADDRESS];
  if (address === undefined) return undefined;
  return JSON.parse(await post(`${address}/borrow`, contents)) as Borrowed; // from the server below
}

/** The caller must ensure that no process writes to the plane afterwards. */
export async function returnPlane({ site }: Borrowed): Promise<void> {
  await post(`${process.env[ADDRESS] ?? ''}/return`, site.folder);
}

async function post(url: string, body: string): Promise<string> {
  const response = await fetch(url, { method: 'POST', body });
  const answer = await response.text();
  if (!response.ok) throw new Error(answer);
  return answer;
}

interface Pooled {
  readonly plane: Plane;
  readonly states: Readonly<Record<Contents, { readonly snapshot: EtcdSnapshot; readonly groups: string }>>;
}

/** @param assets the folder of etcd and kube-apiserver. @returns a function that stops the pool */
export async function startPool(
  assets: string,
  install: (plane: Plane) => Promise<void>,
): Promise<() => Promise<void>> {
  const all = new Set<Pooled>();
  /** Each resolves when its plane is back in the state with Gatehouse, or undefined if the reset failed. */
  const idle: Promise<Pooled | undefined>[] = [];
  const lent = new Map<string, Pooled>();
  let files = 0;

  const launch = async (): Promise<Pooled> => {
    const plane = await launchPlane(assets);
    try {
      const empty = await describe(plane);
      await install(plane);
      const gatehouse = await describe(plane);
      const pooled: Pooled = { plane, states: { empty, gatehouse } };
      all.add(pooled);
      return pooled;
    } catch (error) {
      await stopPlane(plane);
      throw error;
    }
  };
  const discard = async (pooled: Pooled): Promise<undefined> => {
    all.delete(pooled);
    await stopPlane(pooled.plane);
  };
  const borrow = async (contents: Contents): Promise<Borrowed> => {
    const pooled = (await idle.shift()) ?? (await launch());
    const { site, servers } = pooled.plane;
    try {
      await reset(pooled, contents); // again: what the file before had begun may have ended after its own reset
    } catch (error) {
      await discard(pooled);
      throw error;
    }
    lent.set(site.folder, pooled);
    const folder = join(site.folder, `file-${(files += 1)}`);
    mkdirSync(folder);
    const auditedBefore = statSync(join(site.folder, 'audit.log')).size;
    return { site, server: servers.apiServer.server, folder, auditedBefore };
  };
  const takeBack = (folder: string): void => {
    const pooled = lent.get(folder);
    if (pooled === undefined) throw new Error(`no control plane in ${folder} is borrowed`);
    lent.delete(folder);
    idle.push(
      reset(pooled, 'gatehouse').then(
        () => pooled,
        (error: unknown) => {
          console.error('replacing a control plane that could not be reset:', error);
          return discard(pooled);
        },
      ),
    );
  };

  const server = createServer((request, response) => {
    const answer = async (): Promise<string> => {
      const body = await text(request);
      if (request.url === '/borrow') return JSON.stringify(await borrow(body as Contents)); // from borrowPlane
      takeBack(body);
      return '';
    };
    answer().then(
      (body) => response.end(body),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  process.env[ADDRESS] = `http://127.0.0.1:${port}`;
  return async () => {
    server.close();
    server.closeAllConnections();
    await Promise.all(idle);
    await Promise.all([...all].map(discard));
  };
}

async function describe(plane: Plane): Promise<Pooled['states'][Contents]> {
  const snapshot = await takeIdleSnapshot(
    plane.servers.etcd.url,
    300,
    async (found) => hasOwnObjects(found) && (await hasAggregatedRoles(plane)),
  );
  return { snapshot, groups: await readGroups(plane) };
}

/** Whether kube-controller-manager has given each namespace what each namespace has. */
function hasOwnObjects(snapshot: EtcdSnapshot): boolean {
  const keys = new Set([...snapshot.keys()].map((key) => Buffer.from(key, 'base64').toString()));
  const namespaces = [...keys]
    .filter((key) => key.startsWith(NAMESPACES))
    .map((key) => key.slice(NAMESPACES.length));
  return ['default', 'kube-system', 'kube-public', 'kube-node-lease', ...namespaces].every(
    (name) =>
      keys.has(`/registry/serviceaccounts/${name}/default`) &&
      keys.has(`/registry/configmaps/${name}/kube-root-ca.crt`),
  );
}

const NAMESPACES = '/registry/namespaces/';

/** Whether kube-controller-manager has filled the roles of Kubernetes that consist of others. */
async function hasAggregatedRoles({ site, servers }: Plane): Promise<boolean> {
  const url = `${servers.apiServer.server}/apis/rbac.authorization.k8s.io/v1/clusterroles`;
  const filled = ['admin', 'edit', 'view'].map(async (name) => {
    const { body } = await get(`${url}/${name}`, caOf(site), site.tokens.admin);
    return ((JSON.parse(body) as { readonly rules?: readonly unknown[] | null }).rules ?? []).length > 0;
  });
  return (await Promise.all(filled)).every(Boolean);
}

/** Resolves when etcd has its original content, and the API server serves the same groups as before. */
async function reset({ plane, states }: Pooled, to: Contents): Promise<void> {
  const { snapshot, groups } = states[to];
  let last: readonly string[] = [];
  await eventually(
    `a control plane reset to ${to}`,
    async () => {
      last = await restoreEtcdSnapshot(plane.servers.etcd.url, snapshot);
      return last.length === 0 && (await readGroups(plane)) === groups;
    },
    { everyMs: 100, timeoutMs: 60_000 },
  ).catch((error: unknown) => {
    throw new Error(`still different: ${last.join(', ')}`, { cause: error });
  });
}

type Discovered = Partial<Record<'groups' | 'resources', readonly { readonly name: string }[]>>;

export async function readGroups({ site, servers }: Plane): Promise<string> {
  const bodies = await Promise.all(
    ['/apis', '/apis/gatehouse.dev/v1alpha1'].map(async (path) => {
      const url = `${servers.apiServer.server}${path}`;
      const { status, body } = await get(url, caOf(site), site.tokens.admin);
      return status === 200 ? (JSON.parse(body) as Discovered) : {};
    }),
  );
  return bodies
    .flatMap(({ groups = [], resources = [] }) => [...groups, ...resources].map(({ name }) => name))
    .sort()
    .join();
}
