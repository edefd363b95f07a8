/** The product's webhook server on a free port, with real policies and a small cluster behind it. */
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import { onTestFinished } from 'vitest';

import type { AdmissionPolicySpec } from '../../src/api/admission-policy.ts';
import type { CompiledPolicy } from '../../src/admission/policy/compile.ts';
import { emptyWorld, KINDS, policyOf } from './admission/policy.ts';
import type { RequestWorld } from '../../src/admission/policy/world.ts';
import { createAdmission } from '../../src/runtime/policies/admission.ts';
import { createPolicyRegistry } from '../../src/runtime/policies/policy-registry.ts';
import { caBundle, type Authority } from '../../src/pki/authority/authority.ts';
import { firstAuthority, serverOf } from './pki/fixtures.ts';
import type { Outcome } from '../../src/server/metrics/metrics.ts';
import { loadSheddingOf } from './server/load-shedding.ts';
import {
  buildWebhookServer,
  type ServingCertificate,
  type WebhookLimits,
  type WebhookServer,
  type WebhookServerOptions,
} from '../../src/server/webhook-server.ts';
import type { ConversionServing } from '../../src/server/conversion-routes.ts';

export const noConversions: ConversionServing = {
  lookUp: ({ kind }) => ({ kind: 'none', message: `nothing here converts ${kind}` }),
  bodyLimit: 1024 * 1024,
};

export { SERVER_NAME } from './pki/fixtures.ts';

export interface Endpoint {
  readonly port: number;
  readonly ca: string;
  readonly servername?: string;
}

interface Recorded {
  readonly lines: Record<string, unknown>[];
  readonly admissions: { readonly webhook: string; readonly operation: string; readonly outcome: Outcome }[];
  readonly rejected: number[];
}

export function recordingOptions(changed: Partial<WebhookServerOptions> = {}) {
  const { log, lines } = recordingLog();
  const recorded: Recorded = { lines, admissions: [], rejected: [] };
  const { admissions, rejected } = recorded;
  const options: WebhookServerOptions = {
    ...governedBy([]),
    isDraining: () => false,
    loadShedding: loadSheddingOf(),
    conversion: noConversions,
    log,
    metrics: {
      admission: (labels) => admissions.push(labels),
      deferred: () => undefined,
      existingAllowed: () => undefined,
      rejectedRequest: (status) => rejected.push(status),
      conversion: () => undefined,
      crowdedOut: () => undefined,
      scrape: () => undefined,
    },
    ...changed,
  };
  return { options, recorded };
}

export function recordingLog() {
  const lines: Record<string, unknown>[] = [];
  const destination = {
    write: (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>), // pino writes objects
  };
  const log = pino(
    { base: null, level: 'debug', formatters: { level: (label) => ({ level: label }) } },
    destination,
  );
  return { log, lines };
}

export async function certificateOf(authority: Authority, now = new Date()): Promise<ServingCertificate> {
  const { chain, keyPair } = await serverOf(authority, now);
  return { chain, key: keyPair.privateKey };
}

export interface Running extends Endpoint {
  readonly app: WebhookServer;
  readonly recorded: Recorded;
}

export async function startWebhookServer(
  changed: Partial<WebhookServerOptions> = {},
  limits?: WebhookLimits,
): Promise<Running> {
  const running = await runWebhookServer(changed, limits);
  onTestFinished(() => running.app.close());
  return running;
}

export async function runWebhookServer(
  changed: Partial<WebhookServerOptions> = {},
  limits?: WebhookLimits,
): Promise<Running> {
  const now = new Date();
  const authority = await firstAuthority(now);
  const { options, recorded } = recordingOptions({ ...changed, limits });
  const app = buildWebhookServer(await certificateOf(authority, now), options);
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo; // it listens on a TCP port
  return { port, ca: caBundle(authority, now), app, recorded };
}

export const policy = (name: string, spec: AdmissionPolicySpec): CompiledPolicy => policyOf(spec, name);

/** Sets a default tier on Servers. The datacenter and the units are immutable, and the datacenter must exist. */
export const serversPolicy = policy('servers', {
  match: {
    apiGroups: ['infra.example.com'],
    resources: ['servers', 'servers/status'],
    operations: ['CREATE', 'UPDATE', 'DELETE'],
  },
  defaults: [{ path: 'spec.tier', value: 'standard' }],
  validate: {
    immutable: ['spec.datacenter', 'spec.units'],
    references: [
      {
        name: 'datacenter',
        path: 'spec.datacenter',
        target: { apiGroup: 'infra.example.com', resource: 'datacenters' },
      },
    ],
  },
});

/** The webhook entry of {@link serversPolicy}, and of every other policy that selects at least as much. */
export const ENTRY = serversPolicy.entryId;

export const everyDatacenter: RequestWorld = {
  ...emptyWorld(),
  find: ({ name, group, resource }) =>
    name === 'nowhere'
      ? undefined
      : { apiVersion: `${group}/v1`, kind: KINDS[resource] ?? 'Server', metadata: { name } },
  confirm: (ref) => Promise.resolve(everyDatacenter.find(ref)),
  read: (ref) => Promise.resolve(everyDatacenter.find(ref)),
};

export function governedBy(
  policies: readonly CompiledPolicy[],
  world: RequestWorld = everyDatacenter,
): Pick<WebhookServerOptions, 'mutate' | 'validate'> {
  const registry = createPolicyRegistry(() => performance.now());
  for (const compiled of policies) {
    registry.set(compiled.name, { inForce: compiled, problem: undefined, generation: compiled.generation });
  }
  return createAdmission(registry, world);
}
