/** Maintenance of etcd while the API server is stopped. */
import { cpSync, rmSync } from 'node:fs';

import type { ControlPlaneProcesses } from './control-plane.ts';

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

export async function callEtcd<Extra = unknown>(
  url: string,
  path: string,
  body: object,
): Promise<EtcdResponse & Extra> {
  const response = await fetch(`${url}/v3/${path}`, { method: 'POST', body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`etcd: ${path}: ${response.status} ${text}`);
  return JSON.parse(text) as EtcdResponse & Extra; // every response of etcd has a header
}
