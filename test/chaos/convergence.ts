/** Checks that the cluster has converged: repeats all checks after the last fault, until they pass or 30 s are over. */
import { X509Certificate } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';

import type { KubeClient } from '../../src/kube/client.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import {
  mutatingWebhookConfigurations,
  secrets,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { UNIQUE_CLAIMS } from '../../src/runtime/resources.ts';
import { ADMISSION_POLICIES, SYSTEM_NAMESPACE } from '../support/cluster.ts';
import { isTrue, text, type Conditioned, type SecretObject } from '../support/objects.ts';
import { MACHINES, type Machine } from './kinds.ts';
import { answersReviews, untilHealthy } from './replicas.ts';
import { SERVICES, type Scene } from './scene.ts';

export const CONVERGED_WITHIN_MS = 30_000;

export interface Convergence {
  readonly ms: number;
  /** The problems that remain at the end of the timeout. */
  readonly problems: readonly string[];
}

export async function converge(scene: Scene): Promise<Convergence> {
  const from = performance.now();
  for (;;) {
    const problems = await problemsOf(scene);
    const ms = performance.now() - from;
    if (problems.length === 0 || ms > CONVERGED_WITHIN_MS) return { ms, problems };
    await sleep(250);
  }
}

async function problemsOf(scene: Scene): Promise<readonly string[]> {
  const { admin } = scene.cluster;
  const looks: readonly Promise<readonly string[]>[] = [
    replicas(scene),
    policies(admin),
    servingCerts(admin),
    configurations(scene),
    claims(admin),
  ];
  const settled = await Promise.allSettled(looks);
  return settled.flatMap((one) => (one.status === 'fulfilled' ? one.value : [String(one.reason)]));
}

async function replicas(scene: Scene): Promise<readonly string[]> {
  return await untilHealthy(scene.replicas, 0).then(
    () => [],
    () => ['not all replicas are ready, or not exactly one of them leads'],
  );
}

async function policies(admin: KubeClient): Promise<readonly string[]> {
  const { items } = await admin.listAll<Conditioned>(ADMISSION_POLICIES);
  const missing = ['machines', 'racks'].filter(
    (name) => !items.some(({ metadata }) => metadata?.name === name),
  );
  const bad = items.filter((one) => !isTrue('Ready')(one) || !isTrue('WebhooksInstalled')(one));
  return [
    ...missing.map((name) => `the policy ${name} is gone`),
    ...bad.map(({ metadata }) => `the policy ${metadata?.name ?? ''} is not ready`),
  ];
}

/**
 * Each serving certificate must exist, have the right DNS name, and be signed by the only CA in `ca.crt` of its Secret.
 */
async function servingCerts(admin: KubeClient): Promise<readonly string[]> {
  const problems = await Promise.all(
    SERVICES.map(async (name) => {
      const secret = await admin.get<SecretObject>(secrets, { namespace: 'shop', name: `${name}-tls` });
      if (secret === undefined) return `the serving cert of ${name} is gone`;
      const [leaf, root] = [text(secret, 'tls.crt'), text(secret, 'ca.crt')].map(
        (pem) => new X509Certificate(pem),
      );
      if (leaf === undefined || root === undefined) return `the serving cert of ${name} is empty`;
      const isGood =
        leaf.verify(root.publicKey) &&
        leaf.checkHost(`${name}.shop.svc`) !== undefined &&
        Date.parse(leaf.validTo) > Date.now() &&
        Date.parse(leaf.validFrom) < Date.now();
      return isGood ? undefined : `the serving cert of ${name} is not valid`;
    }),
  );
  return problems.filter((one) => one !== undefined);
}

interface Configuration extends KubeObject {
  readonly webhooks?: readonly {
    readonly name: string;
    readonly failurePolicy?: string;
    readonly clientConfig: { readonly caBundle?: string; readonly service?: { readonly name?: string } };
    readonly rules?: readonly {
      readonly resources?: readonly string[];
      readonly operations?: readonly string[];
    }[];
  }[];
}

/** The operations that the rules of each configuration must contain exactly once. */
const WANTED: readonly (readonly [Resource, readonly string[]])[] = [
  [mutatingWebhookConfigurations, ['machines CREATE', 'machines UPDATE']],
  [validatingWebhookConfigurations, ['machines CREATE', 'machines UPDATE', 'racks CREATE', 'racks DELETE']],
];

/** Every entry must trust the certificates of all replicas, and the rules must contain each wanted operation once. */
async function configurations({ cluster, replicas: { members } }: Scene): Promise<readonly string[]> {
  const problems: string[] = [];
  const bundles = new Set<string>();
  for (const [resource, wanted] of WANTED) {
    const found = await cluster.admin.get<Configuration>(resource, { name: 'gatehouse' });
    const entries = found?.webhooks ?? [];
    const asked = entries.flatMap(({ rules = [], failurePolicy }) =>
      rules.flatMap(({ resources = [], operations = [] }) =>
        failurePolicy === 'Fail'
          ? resources.flatMap((one) => operations.map((operation) => `${one} ${operation}`))
          : [],
      ),
    );
    for (const one of wanted)
      if (asked.filter((other) => other === one).length !== 1)
        problems.push(
          `${resource.kind} has ${asked.filter((other) => other === one).length} rules for ${one}`,
        );
    for (const { clientConfig } of entries) bundles.add(clientConfig.caBundle ?? '');
  }
  for (const bundle of bundles)
    for (const { name, replica } of members().filter(({ slot }) => answersReviews(slot))) {
      const why = await distrust(replica.port, Buffer.from(bundle, 'base64').toString('utf8'));
      if (why !== undefined) problems.push(`a caBundle does not trust ${name}: ${why}`);
    }
  return problems;
}

/** Returns why a client with this bundle rejects the replica on this port; undefined if it accepts it. */
function distrust(port: number, ca: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const servername = `gatehouse.${SYSTEM_NAMESPACE}.svc`;
    const socket = connect({ host: '127.0.0.1', port, ca, servername, timeout: 5_000 }, () => {
      resolve(undefined);
      socket.destroy();
    });
    socket.on('error', (error: Error) => {
      resolve(error.message);
    });
    socket.on('timeout', () => {
      resolve('no answer');
      socket.destroy();
    });
  });
}

interface Claim extends KubeObject {
  readonly spec: {
    readonly values: readonly string[];
    readonly holder: { readonly namespace?: string; readonly name: string };
  };
}

/** Each stored serial must have one claim of its holder. There must be no other claims. */
async function claims(admin: KubeClient): Promise<readonly string[]> {
  const machines = (await admin.listAll<Machine>(MACHINES)).items;
  const held = (await admin.listAll<Claim>(UNIQUE_CLAIMS)).items.map(
    ({ spec: { values, holder } }) =>
      `${JSON.parse(values[0] ?? '""') as string} of ${holder.namespace ?? ''}/${holder.name}`,
  );
  const wanted = machines.flatMap(({ metadata, spec: { serial } }) =>
    serial === undefined ? [] : [`${serial} of ${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`],
  );
  const left = held.filter((one) => !wanted.includes(one));
  const missing = wanted.filter((one) => !held.includes(one));
  return [
    ...(left.length > 0 ? [`${left.length} claims are left over, such as ${left[0] ?? ''}`] : []),
    ...(missing.length > 0 ? [`${missing.length} claims are missing, such as ${missing[0] ?? ''}`] : []),
  ];
}
