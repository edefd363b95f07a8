/** Copies of etcd's data while the API server is stopped, and resets key by key, of which it learns through its watches. */
import { cpSync, rmSync } from 'node:fs';

import type { ControlPlaneProcesses } from './control-plane.ts';
import { eventually } from './processes.ts';

export function takeSnapshot({ dataFolder }: ControlPlaneProcesses, to: string): void {
  cpSync(dataFolder, to, { recursive: true });
}

export function restoreSnapshot({ dataFolder }: ControlPlaneProcesses, from: string): void {
  rmSync(dataFolder, { recursive: true, force: true });
  cpSync(from, dataFolder, { recursive: true });
}

const AT_A_TIME = 100;
const KEY = Buffer.from('/gatehouse-test/bump').toString('base64');

/** Writes until the revision is `by` higher, then compacts: a watch from an earlier revision fails. */
export async function bumpRevision(url: string, by: number): Promise<void> {
  for (let written = 0; written < by; written += AT_A_TIME)
    await Promise.all(
      Array.from({ length: Math.min(AT_A_TIME, by - written) }, () =>
        callEtcd(url, 'kv/put', { key: KEY, value: '' }),
      ),
    );
  const { header } = await callEtcd(url, 'kv/deleterange', { key: KEY });
  await callEtcd(url, 'kv/compaction', { revision: header.revision, physical: true });
}

interface EtcdResponse {
  readonly header: { readonly revision: string };
}

async function callEtcd<Extra = unknown>(
  url: string,
  path: string,
  body: object,
): Promise<EtcdResponse & Extra> {
  const response = await fetch(`${url}/v3/${path}`, { method: 'POST', body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`etcd: ${path}: ${response.status} ${text}`);
  return JSON.parse(text) as EtcdResponse & Extra; // every response of etcd has a header
}

interface Stored {
  readonly value: string;
  /** The revision of the last write: a higher revision means that the object has changed. */
  revision: string;
}

export type EtcdSnapshot = ReadonlyMap<string, Stored>;

/** Every key of the API server: `/registry/` up to, not including, `/registry0`. */
const ALL = { key: base64('/registry/'), range_end: base64('/registry0') };
const RESET_AT_A_TIME = 20;
const CRDS = '/registry/apiextensions.k8s.io/customresourcedefinitions/';

interface KeyValue {
  readonly key: string;
  readonly mod_revision: string;
  readonly value?: string;
}

async function takeEtcdSnapshot(url: string): Promise<EtcdSnapshot> {
  const snapshot = new Map<string, Stored>();
  for (const { key, value = '', mod_revision: revision } of await range(url))
    snapshot.set(key, { value, revision });
  return snapshot;
}

/** Waits until the servers have written everything: later writes would also come after each reset. */
export async function takeIdleSnapshot(
  url: string,
  everyMs: number,
  isComplete: (snapshot: EtcdSnapshot) => boolean | Promise<boolean> = () => true,
): Promise<EtcdSnapshot> {
  let before = '';
  return await eventually(
    'an idle control plane',
    async () => {
      const found = await takeEtcdSnapshot(url);
      const now = [...found].map(([key, { revision }]) => `${key} ${revision}`).join();
      if (now === before && (await isComplete(found))) return found;
      before = now;
      return undefined;
    },
    { everyMs },
  );
}

/** One pass. The caller may need several, because the API server reacts. @returns the keys that differed */
export async function restoreEtcdSnapshot(url: string, snapshot: EtcdSnapshot): Promise<readonly string[]> {
  const found = new Map((await range(url, true)).map(({ key, mod_revision: revision }) => [key, revision]));
  const added = [...found.keys()].filter((key) => !snapshot.has(key));
  const changed = [...snapshot].filter(([key, { revision }]) => found.get(key) !== revision);

  // Custom resources first: the API server stops watching them when their definitions are gone.
  const [definitions, objects] = split(added, isDefinition);
  for (const keys of [objects, definitions])
    await eachAlone(keys, (key) => callEtcd(url, 'kv/deleterange', { key }));
  await eachAlone(changed, async ([key, stored]) => {
    const { header } = await callEtcd(url, 'kv/put', { key, value: stored.value });
    stored.revision = header.revision;
  });
  return [...added, ...changed.map(([key]) => key)].map((key) => Buffer.from(key, 'base64').toString());
}

async function range(url: string, keysOnly = false): Promise<readonly KeyValue[]> {
  const { kvs = [] } = await callEtcd<{ readonly kvs?: readonly KeyValue[] }>(url, 'kv/range', {
    ...ALL,
    keys_only: keysOnly,
  });
  return kvs;
}

/** Each write gets its own revision: a watch that ends between two events of one revision misses the second. */
async function eachAlone<T>(all: readonly T[], write: (one: T) => Promise<unknown>): Promise<void> {
  for (let from = 0; from < all.length; from += RESET_AT_A_TIME)
    await Promise.all(all.slice(from, from + RESET_AT_A_TIME).map(write));
}

const isDefinition = (key: string): boolean => Buffer.from(key, 'base64').toString().startsWith(CRDS);

function split<T>(all: readonly T[], test: (one: T) => boolean): readonly [readonly T[], readonly T[]] {
  return [all.filter(test), all.filter((one) => !test(one))];
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
