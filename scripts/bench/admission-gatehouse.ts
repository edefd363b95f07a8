/** The webhook server of `gatehouse serve` with the same wiring, and an in-process stub of the cluster. */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import type { AdmissionPolicySpec } from '../../src/api/admission-policy.ts';
import { type CompiledPolicy, compilePolicy } from '../../src/admission/policy/compile.ts';
import { DATACENTERS } from '../../src/cli/sandbox/tour-objects.ts';
import { createLog, withDebugIfEnabled } from '../../src/runtime/log.ts';
import { createAdmission } from '../../src/runtime/policies/admission.ts';
import { emptyWorld } from '../../test/support/admission/policy.ts';
import { createTargets, createWorld } from '../../src/runtime/policies/world.ts';
import { createPolicyRegistry } from '../../src/runtime/policies/policy-registry.ts';
import { createClient } from '../../src/kube/client.ts';
import type { Query, Rest, RestRequest } from '../../src/kube/rest.ts';
import { createLoadShedding, maxBodyBytes, watchEventLoop } from '../../src/server/limits/load-shedding.ts';
import { createMetrics } from '../../src/server/metrics/metrics.ts';
import {
  buildWebhookServer,
  type ServingCertificate,
  type WebhookServer,
} from '../../src/server/webhook-server.ts';
import type { Contents } from './admission-server.ts';
import { datacenterName, SERVER_POLICY } from './admission-reviews.ts';

/** Logs to stdout, as in production. Resolves when all policies are compiled and all lists are complete. */
export async function buildGatehouse(
  certificate: ServingCertificate,
  { policies, datacenters }: Contents,
): Promise<{ readonly app: WebhookServer; readonly entry: string }> {
  const never = new AbortController().signal;
  const metrics = createMetrics();
  const log = createLog('info', 'bench');
  const rest = restOf(datacenters);
  const client = createClient(rest);
  const discovery = { resolve: () => Promise.resolve(DATACENTERS), forget: () => undefined };
  const targets = createTargets(
    { rest, rollbacks: { add: () => undefined }, namespaces: undefined, log },
    never,
  );
  const compiled = policiesOf(policies);
  await targets.ensure(DATACENTERS, false, never);

  const registry = createPolicyRegistry(() => performance.now());
  for (const policy of compiled) {
    registry.set(policy.name, { inForce: policy, problem: undefined, generation: policy.generation });
  }
  const world = createWorld(client, client, discovery, targets, emptyWorld());
  const { isFull } = watchEventLoop(metrics.eventLoopDelay, never);
  const limits = { reviews: 1_000, bodyBytes: maxBodyBytes() };
  const app = buildWebhookServer(certificate, {
    ...createAdmission(registry, world),
    conversion: { lookUp: () => ({ kind: 'none', message: 'not here' }), bodyLimit: 1 },
    isDraining: () => false,
    loadShedding: createLoadShedding(limits, isFull, metrics, log),
    metrics,
    log: withDebugIfEnabled(log),
  });
  return { app, entry: compiled[0]?.entryId ?? '' };
}

/** All policies have the same scope, so they share a webhook entry. */
function policiesOf(count: number): readonly CompiledPolicy[] {
  return Array.from({ length: count }, (_, index) => {
    if (index === 0) return compile('servers', SERVER_POLICY);
    const match = { ...SERVER_POLICY.match, resources: [`others${index}`] };
    return compile(`others-${index}`, { ...SERVER_POLICY, match });
  });
}

function compile(name: string, spec: AdmissionPolicySpec): CompiledPolicy {
  const result = compilePolicy(
    {
      apiVersion: 'gatehouse.dev/v1alpha1',
      kind: 'AdmissionPolicy',
      metadata: { name, generation: 1 },
      spec,
    },
    {
      ownNamespace: 'gatehouse-system',
      resolve: () => ({ kind: DATACENTERS.kind, namespaced: DATACENTERS.namespaced }),
    },
  );
  if (result.kind === 'rejected') throw new Error(`${name}: ${JSON.stringify(result.problems)}`);
  return result.policy;
}

/** An API server stub that lists Datacenters in pages and then sends no watch events. */
function restOf(objects: number): Rest {
  const rest: Rest = {
    // The caller's T is a list of objects.
    request: <T>({ query }: RestRequest) => Promise.resolve(JSON.parse(pageOf(objects, query)) as T),
    stream: async function* ({ signal }) {
      for (;;) {
        await sleep(60_000, undefined, { signal });
        yield { type: 'BOOKMARK', object: { metadata: { resourceVersion: '1' } } };
      }
    },
    impersonate: () => rest,
  };
  return rest;
}

function pageOf(objects: number, query: Query = {}): string {
  const begin = Number(query.continue ?? 0);
  const end = Math.min(objects, begin + Number(query.limit ?? objects));
  const items = Array.from({ length: end - begin }, (_, index) => ({
    metadata: {
      name: datacenterName(begin + index),
      uid: randomUUID(),
      resourceVersion: String(1_000_000 + begin + index),
      generation: 1,
      creationTimestamp: '2026-11-21T12:00:00Z',
      labels: { region: 'eu-central', provider: 'own' },
    },
  }));
  const next = end < objects ? { continue: String(end) } : {};
  return JSON.stringify({ metadata: { resourceVersion: '1', ...next }, items });
}
