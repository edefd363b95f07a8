/** Sends reviews to a replica as the API server does, and checks the responses. */
import { randomUUID } from 'node:crypto';
import { Pool } from 'undici';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import type { Resource } from '../../src/kube/object.ts';
import type { WebhookConfigurationObject } from '../support/objects.ts';
import type { Cluster } from '../support/cluster.ts';
import { createSeeded } from '../support/seeded.ts';
import { gadget, GROUP, kindOf } from './scene.ts';

export interface Reviewer {
  readonly send: (n: number) => Promise<void>;
  readonly answered: () => Readonly<Record<string, number>>;
  readonly close: () => Promise<void>;
}

export interface ReviewerOptions {
  readonly port: number;
  /** The objects `fixed-0`, `fixed-1`… of each kind have the serials `fixed-<kind>-<n>`, and never change. */
  readonly fixed: number;
  readonly kinds: number;
  readonly namespace: string;
}

/** The number of connections that kube-apiserver opens to a webhook at this rate. */
const CONNECTIONS = 32;
const SERVER_NAME = 'gatehouse.gatehouse-system.svc';

interface Review {
  readonly sort: string;
  readonly object: KubeObject;
  /** Undefined: the object is created. */
  readonly oldObject?: KubeObject;
  readonly allowed: boolean;
}

export async function createReviewer({ admin }: Cluster, options: ReviewerOptions): Promise<Reviewer> {
  const read = (resource: Resource) => admin.get<WebhookConfigurationObject>(resource, { name: 'gatehouse' });
  const validate = entryOf(await read(validatingWebhookConfigurations));
  const mutate = entryOf(await read(mutatingWebhookConfigurations));
  const pool = new Pool(`https://127.0.0.1:${options.port}`, {
    connections: CONNECTIONS,
    connect: { ca: Buffer.from(validate.ca, 'base64'), servername: SERVER_NAME },
  });
  const counts: Record<string, number> = {};
  const seeded = createSeeded(20_261_122);
  return {
    send: async (n) => {
      const index = n % options.kinds;
      const isMutating = seeded.chance(0.3);
      const review = reviewOf(index, seeded.below(options.fixed), seeded.next(), options.namespace);
      const allowed = await post(pool, (isMutating ? mutate : validate).path, index, review);
      const expected = isMutating || review.allowed;
      if (allowed !== expected) throw new Error(`${review.sort}: ${expected ? 'refused' : 'allowed'}`);
      const sort = isMutating ? 'defaulted' : review.sort;
      counts[sort] = (counts[sort] ?? 0) + 1;
    },
    answered: () => counts,
    close: () => pool.destroy(),
  };
}

/** All policies of the scene have the same scope, so they share a webhook entry. */
function entryOf(object: WebhookConfigurationObject | undefined): {
  readonly path: string;
  readonly ca: string;
} {
  const entry = object?.webhooks?.find(
    ({ clientConfig }) => clientConfig.service?.path?.includes('fail-') === true,
  );
  const path = entry?.clientConfig.service?.path;
  const ca = entry?.clientConfig.caBundle;
  if (path === undefined || ca === undefined) throw new Error('no webhook covers the governed kinds');
  return { path, ca };
}

/** @param chance in [0, 1); selects the sort of review */
function reviewOf(index: number, n: number, chance: number, namespace: string): Review {
  const fields = { partner: `fixed-${n}`, serial: `fixed-${index}-${n}`, tier: 'standard' };
  const fixed = (spec: object) => gadget(index, namespace, `fixed-${n}`, { ...fields, ...spec });
  const change = (sort: string, allowed: boolean, spec: object): Review => ({
    sort,
    object: fixed(spec),
    oldObject: fixed({ size: 5 }),
    allowed,
  });
  const creation = (sort: string, allowed: boolean, spec: object): Review => ({
    sort,
    object: gadget(index, namespace, `new-${randomUUID()}`, { ...fields, ...spec }),
    allowed,
  });
  if (chance < 0.4) return change('changed', true, { size: 7 });
  if (chance < 0.7) return creation('created', true, { serial: randomUUID() });
  if (chance < 0.8) return change('too large', false, { size: 101 });
  if (chance < 0.85)
    return creation('no such partner', false, { partner: `none-${randomUUID()}`, serial: randomUUID() });
  if (chance < 0.9) return creation('serial of another', false, {});
  return change('changed, large', true, { size: 8, text: 'lorem ipsum '.repeat(2_000) });
}

async function post(pool: Pool, path: string, index: number, review: Review): Promise<boolean> {
  const { statusCode, body } = await pool.request({
    method: 'POST',
    path: `${path}?timeout=10s`,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(toWire(index, review)),
  });
  const answer = await body.text();
  if (statusCode !== 200) throw new Error(`${review.sort}: ${statusCode} ${answer.slice(0, 300)}`);
  // The response is an AdmissionReview.
  return (JSON.parse(answer) as { readonly response: { readonly allowed: boolean } }).response.allowed;
}

/** A dry run: the objects are never stored, so Gatehouse must not create claims for them. */
function toWire(index: number, { object, oldObject }: Review): object {
  const { version, resource, kind } = kindOf(index);
  const [gvk, gvr] = [
    { group: GROUP, version, kind },
    { group: GROUP, version, resource },
  ];
  const { metadata } = object;
  return {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: randomUUID(),
      kind: gvk,
      requestKind: gvk,
      resource: gvr,
      requestResource: gvr,
      name: metadata?.name,
      namespace: metadata?.namespace,
      operation: oldObject === undefined ? 'CREATE' : 'UPDATE',
      userInfo: { username: 'system:serviceaccount:ci:deployer', groups: ['system:authenticated'] },
      object,
      oldObject: oldObject ?? null,
      dryRun: true,
      options: null,
    },
  };
}
