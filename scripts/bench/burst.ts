/** Creates many Services in parallel that each request a serving certificate, and measures when each Secret exists. */
import { mapConcurrent } from '../../src/json/map-concurrent.ts';
import { setTimeout as sleep } from 'node:timers/promises';

import { watch } from '../../src/runtime/watch.ts';
import type { Log } from '../../src/log.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { namespaces as namespaceResource, secrets, services } from '../../src/kube/well-known.ts';
import { SERVING_CERT_LABEL, SERVING_CERT_SECRET_NAME, TLS_CERT_KEY } from '../../src/pki/annotations.ts';
import type { ClusterProcess } from './cluster-process.ts';

const NAMESPACES = 20;
const LANES = 16;

export const namespaceOf = (index: number): string => `team-${index % NAMESPACES}`;

export const namespaces: readonly string[] = Array.from({ length: NAMESPACES }, (_, index) =>
  namespaceOf(index),
);

export const times = (count: number, work: (index: number) => Promise<unknown>) =>
  mapConcurrent([...Array(count).keys()], LANES, work);

interface SecretObject extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

const log: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: (fields, message) => {
    console.warn(message, fields);
  },
  error: (fields, message) => {
    console.error(message, fields);
  },
};

export async function createNamespaces({ client }: ClusterProcess): Promise<void> {
  for (const name of namespaces) await client.create(namespaceResource, { metadata: { name } });
}

/** Resolves when the last Secret exists. @throws Error when a Secret is missing after `withinMs` */
export async function createServices({ client, rest }: ClusterProcess, count: number, withinMs: number) {
  const stopping = new AbortController();
  const issuedAt = new Map<string, number>();
  const watched = watch<SecretObject>(
    { rest, rollbacks: { add: () => undefined }, namespaces: undefined, log },
    {
      resource: secrets,
      labelSelector: `${SERVING_CERT_LABEL.name}=${SERVING_CERT_LABEL.value}`,
      // Drops the certificates, which this benchmark does not use.
      transform: ({ metadata, data }) => ({
        metadata: { namespace: metadata?.namespace ?? '', name: metadata?.name ?? '' },
        data: data?.[TLS_CERT_KEY] === undefined ? {} : { [TLS_CERT_KEY]: '' },
      }),
      onChange: (key, change) => {
        if (change.object.data?.[TLS_CERT_KEY] !== undefined && !issuedAt.has(key))
          issuedAt.set(key, performance.now());
      },
    },
    stopping.signal,
  );
  await watched.whenSynced(stopping.signal);

  const started = performance.now();
  const createdAt = await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      await client.create(services, service(index), { timeoutMs: withinMs });
      return performance.now();
    }),
  );
  const keyOf = (index: number) => `${namespaceOf(index)}/web-${index}`;
  const isMissing = () => createdAt.some((_, index) => !issuedAt.has(keyOf(index)));
  while (isMissing() && performance.now() - started < withinMs) await sleep(20);
  stopping.abort();
  if (isMissing()) throw new Error(`${issuedAt.size} Secrets of ${count} Services after ${withinMs} ms`);

  const readyAt = createdAt.map((_, index) => issuedAt.get(keyOf(index)) ?? 0);
  return {
    /** Milliseconds from the start of the burst until each Secret exists. */
    ready: readyAt.map((at) => at - started),
    /** Milliseconds from the API server's response to each create until the Secret exists. */
    waited: readyAt.map((at, index) => Math.max(0, at - (createdAt[index] ?? 0))),
  };
}

/** Headless: a cluster does not have enough cluster IPs. */
function service(index: number): KubeObject {
  const name = `web-${index}`;
  const headless: KubeObject & { readonly spec: object } = {
    metadata: { namespace: namespaceOf(index), name, annotations: { [SERVING_CERT_SECRET_NAME]: name } },
    spec: { clusterIP: 'None', ports: [{ port: 443 }] },
  };
  return headless;
}
