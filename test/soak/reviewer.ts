/** Sends reviews to a replica as the API server does, and checks the responses. */
import { randomUUID } from 'node:crypto';
import { Agent, request } from 'node:https';
import { text } from 'node:stream/consumers';

import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import type { WebhookConfigurationObject } from '../support/objects.ts';
import type { Cluster } from '../support/cluster.ts';
import { createSeeded } from '../support/seeded.ts';
import { gadget, GROUP, kindOf } from './scene.ts';

export interface Reviewer {
  /** Sends the nth review. @throws Error when the response is not the expected one */
  readonly send: (n: number) => Promise<void>;
  /** The number of responses for each sort of review. */
  readonly answered: () => Readonly<Record<string, number>>;
  readonly close: () => void;
}

export interface ReviewerOptions {
  readonly port: number;
  /**
   * The number of objects `fixed-0`, `fixed-1`… of each kind in the namespace. Their serials are `fixed-<kind>-<n>`,
   * and they never change.
   */
  readonly fixed: number;
  readonly kinds: number;
  readonly namespace: string;
}

/** The number of connections that kube-apiserver opens to a webhook at this rate. */
const CONNECTIONS = 32;
const SERVER_NAME = 'gatehouse.gatehouse-system.svc';

const configuration = (resource: string): Resource => ({
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  resource,
  kind: '',
  namespaced: false,
});

interface Review {
  readonly sort: string;
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE';
  readonly object: KubeObject | null;
  readonly oldObject: KubeObject | null;
  readonly allowed: boolean;
}

export async function createReviewer({ admin }: Cluster, options: ReviewerOptions): Promise<Reviewer> {
  const read = (resource: string) =>
    admin.get<WebhookConfigurationObject>(configuration(resource), { name: 'gatehouse' });
  const [validating, mutating] = await Promise.all([
    read('validatingwebhookconfigurations'),
    read('mutatingwebhookconfigurations'),
  ]);
  const validate = entryOf(validating);
  const mutate = entryOf(mutating);
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const target = { agent, port: options.port, ca: Buffer.from(validate.ca, 'base64') };
  const counts: Record<string, number> = {};
  const seeded = createSeeded(20_261_122);
  return {
    send: async (n) => {
      const index = n % options.kinds;
      const isMutating = seeded.chance(0.3);
      const review = reviewOf(index, seeded.below(options.fixed), seeded.next(), options.namespace);
      const { allowed } = await post(target, (isMutating ? mutate : validate).path, index, review);
      const expected = isMutating || review.allowed;
      if (allowed !== expected) throw new Error(`${review.sort}: ${expected ? 'refused' : 'allowed'}`);
      const sort = isMutating ? 'defaulted' : review.sort;
      counts[sort] = (counts[sort] ?? 0) + 1;
    },
    answered: () => counts,
    close: () => {
      agent.destroy();
    },
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
  const serial = `fixed-${index}-${n}`;
  const fixed = gadget(index, namespace, `fixed-${n}`, {
    partner: `fixed-${n}`,
    serial,
    size: 5,
    tier: 'standard',
  });
  const changed = (spec: object) =>
    gadget(index, namespace, `fixed-${n}`, { partner: `fixed-${n}`, serial, tier: 'standard', ...spec });
  const fresh = (spec: object) =>
    gadget(index, namespace, `new-${randomUUID()}`, { tier: 'standard', ...spec });
  if (chance < 0.4)
    return {
      sort: 'changed',
      operation: 'UPDATE',
      object: changed({ size: 7 }),
      oldObject: fixed,
      allowed: true,
    };
  if (chance < 0.7)
    return {
      sort: 'created',
      operation: 'CREATE',
      object: fresh({ partner: `fixed-${n}`, serial: randomUUID() }),
      oldObject: null,
      allowed: true,
    };
  if (chance < 0.8)
    return {
      sort: 'too large',
      operation: 'UPDATE',
      object: changed({ size: 101 }),
      oldObject: fixed,
      allowed: false,
    };
  if (chance < 0.85)
    return {
      sort: 'no such partner',
      operation: 'CREATE',
      object: fresh({ partner: `none-${randomUUID()}` }),
      oldObject: null,
      allowed: false,
    };
  if (chance < 0.9)
    return {
      sort: 'serial of another',
      operation: 'CREATE',
      object: fresh({ partner: `fixed-${n}`, serial }),
      oldObject: null,
      allowed: false,
    };
  return {
    sort: 'changed, large',
    operation: 'UPDATE',
    object: changed({ size: 8, text: 'lorem ipsum '.repeat(2_000) }),
    oldObject: fixed,
    allowed: true,
  };
}

interface Target {
  readonly agent: Agent;
  readonly port: number;
  readonly ca: Buffer;
}

async function post(
  target: Target,
  path: string,
  index: number,
  review: Review,
): Promise<{ readonly allowed: boolean }> {
  const body = JSON.stringify(toWire(index, review));
  const response = await new Promise<{ readonly status: number; readonly body: string }>(
    (resolve, reject) => {
      const sent = request(
        {
          ...target,
          host: '127.0.0.1',
          servername: SERVER_NAME,
          method: 'POST',
          path: `${path}?timeout=10s`,
          headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
        },
        (answer) => {
          text(answer).then((said) => {
            resolve({ status: answer.statusCode ?? 0, body: said });
          }, reject);
        },
      );
      sent.on('error', reject);
      sent.end(body);
    },
  );
  if (response.status !== 200)
    throw new Error(`${review.sort}: ${response.status} ${response.body.slice(0, 300)}`);
  // The response is an AdmissionReview.
  return (JSON.parse(response.body) as { readonly response: { readonly allowed: boolean } }).response;
}

/** A dry run: the objects are never stored, so Gatehouse must not create claims for them. */
function toWire(index: number, { operation, object, oldObject }: Review): object {
  const { version, resource, kind } = kindOf(index);
  const [gvk, gvr] = [
    { group: GROUP, version, kind },
    { group: GROUP, version, resource },
  ];
  const { metadata } = object ?? oldObject ?? {};
  return {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: randomUUID(),
      ...{ kind: gvk, requestKind: gvk, resource: gvr, requestResource: gvr },
      name: metadata?.name,
      namespace: metadata?.namespace,
      operation,
      userInfo: { username: 'system:serviceaccount:ci:deployer', groups: ['system:authenticated'] },
      object,
      oldObject,
      dryRun: true,
      options: null,
    },
  };
}
