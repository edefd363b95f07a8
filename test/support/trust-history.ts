/** All bundles and chains during a rotation of the CA, in the order in which the API server stored them. */
import type { X509Certificate } from 'node:crypto';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { type Resource, resourcePath } from '../../src/kube/object.ts';
import {
  configMaps,
  mutatingWebhookConfigurations,
  secrets,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { parseAuthority } from '../../src/pki/authority/secret.ts';
import type { Authority } from '../../src/pki/authority/authority.ts';
import { splitCertificates } from '../../src/pki/x509/pem.ts';
import { SYSTEM_NAMESPACE, type Cluster } from './cluster.ts';
import type { WebhookConfigurationObject } from './objects.ts';

export type TrustEvent =
  | { readonly kind: 'authority'; readonly version: number; readonly authority: Authority }
  /** A bundle that clients may have read. */
  | { readonly kind: 'bundle'; readonly version: number; readonly target: string; readonly bundle: string }
  /** A chain that a server may present from now on. */
  | {
      readonly kind: 'chain';
      readonly version: number;
      readonly target: string;
      readonly chain: string;
      readonly privateKey: string;
      readonly host: string;
    };

export type TrustHistory = Awaited<ReturnType<typeof recordTrust>>;

interface WatchLine {
  readonly type: string;
  readonly object: KubeObject;
}

interface Data extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

const RESOURCES: readonly Resource[] = [
  secrets,
  configMaps,
  mutatingWebhookConfigurations,
  validatingWebhookConfigurations,
];

/** Records the state and every change from now on, read from the API server as an administrator. */
export async function recordTrust({ admin, adminRest }: Cluster) {
  const stopped = new AbortController();
  let events: readonly TrustEvent[] = [];
  const last = new Map<string, { readonly what: string; readonly event: TrustEvent }>();
  const note = (resource: Resource, object: KubeObject): void => {
    for (const event of eventsIn(resource, object)) {
      const [where, what] = placeAndContent(event);
      if (last.get(where)?.what === what) continue;
      last.set(where, { what, event });
      events = [...events, event].sort((a, b) => a.version - b.version);
    }
  };
  const follow = async (resource: Resource, since: string): Promise<void> => {
    const query = { watch: true, resourceVersion: since };
    const request = { path: resourcePath(resource, {}), query, signal: stopped.signal };
    try {
      for await (const line of adminRest.stream(request)) {
        const { type, object } = line as WatchLine; // a watch sends such lines
        if (type === 'ERROR') throw new Error(JSON.stringify(object));
        if (type !== 'DELETED') note(resource, object);
      }
      throw new Error('it ended');
    } catch (cause) {
      if (!stopped.signal.aborted) throw new Error(`the watch of ${resource.resource} broke`, { cause });
    }
  };
  const watches: Promise<void>[] = [];
  for (const resource of RESOURCES) {
    const { items, metadata } = await admin.list<KubeObject>(resource);
    for (const object of items) note(resource, object);
    watches.push(follow(resource, metadata.resourceVersion ?? ''));
  }
  const all = Promise.all(watches);
  all.catch(() => undefined); // `stop` reports the error
  return {
    /** Ordered by resourceVersion. Only changes: an unchanged bundle in the same place adds no event. */
    events: () => events,
    forgetPast: () => {
      const standing = new Set([...last.values()].map(({ event }) => event));
      events = events.filter((event) => standing.has(event));
    },
    /** Throws if a watch broke, because the history may then be incomplete. */
    stop: async () => {
      stopped.abort(new Error('the test is over'));
      await all;
    },
  };
}

function placeAndContent(event: TrustEvent): readonly [string, string] {
  switch (event.kind) {
    case 'authority':
      return ['authority', JSON.stringify(event.authority)];
    case 'bundle':
      return [`bundle ${event.target}`, event.bundle];
    case 'chain':
      return [`chain ${event.target}`, event.chain + event.privateKey];
  }
}

function eventsIn(resource: Resource, object: KubeObject): readonly TrustEvent[] {
  const { namespace, name = '', resourceVersion } = object.metadata ?? {};
  const version = Number(resourceVersion);
  const target = `${resource.resource} ${namespace === undefined ? name : `${namespace}/${name}`}`;
  const bundle = (pem: string | undefined, slot = ''): readonly TrustEvent[] =>
    pem === undefined || pem === '' ? [] : [{ kind: 'bundle', version, target: target + slot, bundle: pem }];

  if (resource.resource === 'configmaps') {
    const { data = {} } = object as Data;
    return name === 'gatehouse-cabundle' ? bundle(data['ca.crt']) : [];
  }
  if (resource.resource !== 'secrets') {
    const { webhooks = [] } = object as WebhookConfigurationObject;
    return webhooks.flatMap((one) => bundle(decode(one.clientConfig.caBundle), ` ${one.name}`));
  }
  const { data = {} } = object as Data;
  if (namespace === SYSTEM_NAMESPACE && name === 'gatehouse-authority')
    return [{ kind: 'authority', version, authority: parseAuthority(data) }];
  const [chain, privateKey] = [decode(data['tls.crt']), decode(data['tls.key'])];
  if (chain === undefined || privateKey === undefined) return [];
  const host = /DNS:([^,*]+\.svc)(,|$)/.exec(leafOf(chain).subjectAltName ?? '')?.[1] ?? '';
  return [{ kind: 'chain', version, target, chain, privateKey, host }, ...bundle(decode(data['ca.crt']))];
}

const decode = (base64: string | undefined): string | undefined =>
  base64 === undefined ? undefined : Buffer.from(base64, 'base64').toString('utf8');

export function leafOf(chain: string): X509Certificate {
  const [leaf] = splitCertificates(chain);
  if (leaf === undefined) throw new Error('the chain is empty');
  return leaf;
}

/** The ID of the generation whose key signed a certificate: the issuer name contains it. */
export const issuerId = (certificate: X509Certificate): string =>
  /CN=gatehouse-serving-ca-([0-9a-f]{8})$/m.exec(certificate.issuer)?.[1] ?? 'unknown';

export const rootIds = (bundle: string): readonly string[] => splitCertificates(bundle).map(issuerId);
