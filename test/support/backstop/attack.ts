/** One write that a thief with the token of the controllers may try. */
import { rootCertificates } from 'node:tls';

import type { KubeObject } from '../../../src/json/kube-object.ts';
import type { JsonPatchOperation } from '../../../src/json/json-patch.ts';
import type { KubeClient } from '../../../src/kube/client.ts';
import type { Resource } from '../../../src/kube/object.ts';

export interface Attack {
  readonly name: string;
  readonly policy: 'secrets' | 'config-maps' | 'webhooks' | 'definitions' | 'workloads' | 'installation';
  readonly before?: readonly [Resource, Json];
  readonly write: (client: KubeClient) => Promise<unknown>;
}

export type Attempt = Omit<Attack, 'policy'>;

/** The name of the object that an attack is about. */
export const idOf = (attack: string): string => attack.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-');

export type Json = KubeObject & Readonly<Record<string, unknown>>;
export type Strings = Readonly<Record<string, string>>;
export const HOME = 'gatehouse-system';
export const TENANT = 'tenant';

/** The API server refuses what does not parse. */
export const BUNDLE = Buffer.from(rootCertificates[0] ?? '').toString('base64');
export const MARK = 'gatehouse.dev/serving-cert-service';
export const ASKS = { 'gatehouse.dev/inject-cabundle': 'true' };
export const tls = { 'tls.crt': '', 'tls.key': '' };
export const owner = (name: string, kind = 'Service') => ({
  apiVersion: 'v1',
  kind,
  name,
  uid: `uid-of-${name}`,
});

export const meta = (name: string, annotations: Strings = {}, namespace?: string) => ({
  metadata: { name, annotations, ...(namespace === undefined ? {} : { namespace }) },
});
export const creates = (resource: Resource, object: Json) => (client: KubeClient) =>
  client.create(resource, object);
export const merges =
  (resource: Resource, name: string, patch: object, namespace?: string) => (client: KubeClient) =>
    client.patchMerge(resource, { name, namespace }, patch);
export const patches =
  (resource: Resource, name: string, ops: readonly JsonPatchOperation[]) => (client: KubeClient) =>
    client.patchJson(resource, { name }, ops);
