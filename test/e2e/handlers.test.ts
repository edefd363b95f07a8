/** Handlers out of a folder, in a process of their own, asked by a real API server (or the sandbox). */
import { rmSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ApiError } from '../../src/kube/api-error.ts';
import type { KubeObject } from '../../src/kube/object.ts';
import {
  configMaps,
  mutatingWebhookConfigurations,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { createNamespace, DATACENTERS, SERVERS, type Cluster } from '../support/cluster.ts';
import { enforceExamples, startGatehouse, untilRefused } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { forCase, writeHandlers } from '../support/handler-folder.ts';
import { datacenter, server, type Server, type WebhookConfigurationObject } from '../support/objects.ts';
import { eventually, tail } from '../support/processes.ts';

const HANDLERS = {
  'servers.ts': `
    interface Server {
      metadata: { name?: string; namespace?: string; annotations?: Record<string, string> };
      spec: { datacenter: string; tier?: string; rack?: string; units?: number };
    }
    interface Datacenter { spec?: { capacity?: number } }

    export default defineHandler<Server>({
      match: { apiGroups: ['infra.example.com'], apiVersions: ['v1'], resources: ['servers'], operations: ['CREATE', 'UPDATE', 'DELETE'] },
      reads: ['servers.infra.example.com', 'datacenters.infra.example.com'],
      mutate(draft, context) {
        draft.metadata.annotations ??= {};
        draft.metadata.annotations['example.com/rack'] ??= \`\${context.request.namespace}-\${draft.spec.tier}\`;
      },
      async validate(server, context) {
        if (context.request.operation === 'DELETE') {
          if (server.metadata.annotations?.['example.com/keep'] === 'true') {
            context.deny(\`\${context.request.name} is to be kept\`, { field: 'metadata.annotations' });
          }
          return;
        }
        const home = await context.get<Datacenter>('datacenters', { name: server.spec.datacenter });
        const capacity = home?.spec?.capacity ?? 100;
        if ((server.spec.units ?? 1) > capacity) {
          return context.deny(\`\${server.spec.datacenter} holds \${capacity} units\`, { field: 'spec.units' });
        }
        const peers = await context.list<Server>('servers');
        if (context.request.operation === 'CREATE' && peers.length >= 3) {
          return context.deny('a namespace holds at most 3 servers', { field: 'spec', reason: 'TooMany' });
        }
        if (peers.length === 2) context.warn('this is the last server that fits');
        context.audit('peers', String(peers.length));
      },
    });`,
  'throws.ts': forCase('throws', `mutate() { throw new Error('password=hunter2'); },`),
  'throws-deny.ts': forCase(
    'throws-deny',
    `failurePolicy: 'Ignore', onError: 'deny', mutate(draft) { draft.half = 'done'; throw 'no Error at all'; },`,
  ),
  'throws-allow.ts': forCase(
    'throws-allow',
    `onError: 'allow',
     mutate(draft) { draft.data.half = 'done'; throw new Error('then it broke'); },`,
  ),
  'throws-ignored.ts': forCase(
    'throws-ignored',
    `failurePolicy: 'Ignore', validate() { throw new Error('no'); },`,
  ),
  'hangs.ts': forCase('hangs', `timeoutSeconds: 2, onError: 'deny', validate: () => new Promise(() => {}),`),
  'strays.ts': forCase(
    'strays',
    `validate() {
       void Promise.reject(new Error('left behind'));
       setTimeout(() => { throw new Error('from a timer'); }, 1);
     },`,
  ),
  'dates.ts': forCase('dates', `mutate(draft) { draft.data.at = new Date(0); },`),
  'original.ts': forCase('original', `validate(object) { object.data.note = 'changed'; },`),
} satisfies Record<string, string>;

let cluster: Cluster;
let replica: Replica;
const folder = writeHandlers(HANDLERS);

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({
    controllers: ['garbagecollector', 'clusterrole-aggregation'],
    settings: { handlers: folder },
  }));
  await enforceExamples(cluster);
  await cluster.admin.create(DATACENTERS, { ...datacenter('small'), spec: { capacity: 2 } } as KubeObject);
  await untilRefused('a Server too large', 'holds 2 units', () =>
    cluster.admin.create(SERVERS, sized('probe', 3), { dryRun: true }),
  );
});

afterAll(async () => {
  await replica.program.stop(15_000);
  await cluster.stop();
  rmSync(folder, { recursive: true });
});

const sized = (name: string, units: number): Server => ({
  ...server('shop', name, 'small'),
  spec: { datacenter: 'small', units } as Server['spec'],
});

async function refusal(attempt: () => Promise<unknown>): Promise<ApiError> {
  try {
    await attempt();
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error('it was not refused');
}

const configMap = (name: string, labels: Record<string, string> = { case: name }): KubeObject =>
  ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: 'shop', name, labels },
    data: { note: 'as sent' },
  }) as KubeObject;

const create = (name: string) =>
  cluster.admin.create<KubeObject & { data?: object }>(configMaps, configMap(name));

test('a handler mutates what policies have filled in before', async () => {
  const made = await cluster.admin.create<Server>(SERVERS, server('shop', 'web', 'fra1'));
  expect(made).toMatchObject({
    metadata: { annotations: { 'example.com/rack': 'shop-standard' } },
    spec: { tier: 'standard' },
  });
});

test('a refusal names handler and field, with causes', async () => {
  const error = await refusal(() => cluster.admin.create(SERVERS, sized('large', 3)));
  expect(error.message).toContain('spec.units: small holds 2 units (handler servers)');
  expect(error.causes).toMatchObject([{ field: 'spec.units', reason: 'FieldValueInvalid' }]);
});

describe('what goes wrong in a handler', () => {
  test('an exception is judged by the failurePolicy, and says nothing of what happened', async () => {
    const error = await refusal(() => create('throws'));
    expect(error.message).toContain('handler throws failed');
    expect(error.message).not.toContain('hunter2');
    expect(tail(replica.program.logFile, 2_000)).toContain('password=hunter2');
    expect(await create('throws-ignored')).toMatchObject({ data: { note: 'as sent' } });
  });

  test('with onError: deny it is a refusal, whatever the failurePolicy', async () => {
    expect((await refusal(() => create('throws-deny'))).message).toContain('handler throws-deny failed');
  });

  test('with onError: allow the object is stored as it was sent', async () => {
    expect((await create('throws-allow')).data).toEqual({ note: 'as sent' });
  });

  test('an endless promise is answered in time', async () => {
    const error = await refusal(() => create('hangs'));
    expect(error.message).toContain('handler hangs did not answer in time');
    expect(await create('unconcerned')).toBeDefined();
  });

  test('a promise and a timer left behind do not end the process', async () => {
    expect(await create('strays')).toBeDefined();
    await eventually('both are in the log', () => {
      const log = tail(replica.program.logFile, 2_000);
      return log.includes('left behind') && log.includes('from a timer');
    });
    expect(replica.program.isRunning()).toBe(true);
    expect((await replica.readyz()).ok).toBe(true);
  });

  test('a date in a draft and a change of the original are told to the author', async () => {
    await refusal(() => create('dates'));
    await refusal(() => create('original'));
    const log = tail(replica.program.logFile, 2_000);
    expect(log).toContain('data.at: it is a Date');
    expect(log).toContain('read only');
  });
});
