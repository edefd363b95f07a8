// suite: shared-plane, sandbox: yes
/** startControllerSuite as its users call it: failures, time and several controllers, in memory and with a real API server. */
import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, beforeAll, expect, test } from 'vitest';

import {
  type Controller,
  type ControllerDefinition,
  defineController,
} from '../../src/controllers/controller.ts';
import { startControllerSuite, type ControllerSuite, type Failure } from '../../src/testing.ts';
import { testsSandbox } from '../support/control-plane.ts';
import { ANY, definitionOf, resourceOf, versionOf } from '../support/definitions.ts';
import { controlPlanePrograms } from '../support/go-programs.ts';
import { eventually } from '../support/processes.ts';

const teams = resourceOf('example.com', 'teams', 'Team');
const boards = resourceOf('example.com', 'boards', 'Board');
const maps = resourceOf('', 'configmaps', 'ConfigMap');
const manifests = [teams, boards].map((kind) =>
  definitionOf(kind, { versions: [versionOf('v1', ANY, { subresources: { status: {} } })] }),
);
const team = (name: string) => ({
  apiVersion: 'example.com/v1',
  kind: 'Team',
  metadata: { name, namespace: 'default' },
});
const watching = (resource: string) =>
  ({ apiGroups: ['example.com'], apiVersions: ['v1'], resources: [resource] }) as const;
const owns = [{ apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'] }] as const;

/** What a test puts in here happens in the next pass, once. */
let during: () => unknown = () => undefined;
const define = (parts: Partial<ControllerDefinition> = {}) =>
  defineController({
    name: 'teams',
    watch: watching('teams'),
    owns,
    reconcile: async ({ metadata }, { apply }) => {
      const once = during;
      during = () => undefined;
      const name = metadata?.name ?? '';
      await apply({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name, namespace: 'default' },
        data: { team: name },
      });
      await once();
    },
    ...parts,
  });

let suite: ControllerSuite;
const before = process.env.KUBEBUILDER_ASSETS;
const folders = () => readdirSync(tmpdir()).filter((name) => name.startsWith('gatehouse-suite-'));
const start = async (...controllers: Controller<never>[]) =>
  await startControllerSuite(controllers, { manifests });

beforeAll(async () => {
  if (testsSandbox()) delete process.env.KUBEBUILDER_ASSETS;
  else process.env.KUBEBUILDER_ASSETS = await controlPlanePrograms();
  suite = await start(define());
});
afterAll(async () => {
  await suite.stop();
  if (before === undefined) delete process.env.KUBEBUILDER_ASSETS;
  else process.env.KUBEBUILDER_ASSETS = before;
});
const mapOf = async (name: string) => await suite.get(maps, { namespace: 'default', name });

test.each<[string, Failure, number]>([
  ['refused-409', { verb: 'patch', kind: 'configmaps', status: 409, times: 2 }, 2],
  ['refused-500', { verb: 'patch', kind: 'configmaps', status: 500, times: 5 }, 5],
  ['busy', { verb: 'patch', kind: 'configmaps', status: 429, retryAfterSeconds: 20 }, 1],
  ['no-list', { verb: 'list', kind: 'teams.example.com', status: 500, times: 2 }, 2],
  ['no-watch', { verb: 'watch', kind: 'configmaps', status: 410 }, 1],
  ['response-lost', { verb: 'patch', kind: 'configmaps' }, 1],
  ['watch-lost', { verb: 'watch', kind: 'configmaps' }, 1],
  ['late', { verb: 'patch', kind: 'configmaps', delaySeconds: 45 }, 1],
])('the controller converges after a failure: %s', async (name, failure, times) => {
  const failed = suite.fail(failure);
  await suite.apply(team(name));
  await suite.settle();
  expect(failed.happened()).toBe(times);
  expect(await mapOf(name)).toMatchObject({ data: { team: name } });
});

test.each([false, true])('a lost watch misses no change (expired: %s)', async (isExpired) => {
  const name = `lost-${isExpired}`;
  await suite.apply(team(name));
  await suite.settle();
  during = async () => {
    suite.dropWatches({ isExpired });
    await suite.patch(maps, { namespace: 'default', name }, { data: { team: 'changed' } });
  };
  await suite.settle({ restart: false });
  expect(await mapOf(name)).toMatchObject({ data: { team: name } });
});

test('no watch is open between two runs', () => {
  expect(() => suite.dropWatches()).toThrow('call dropWatches while settle runs');
});

test('two suites at the same time, one with two controllers', async () => {
  const board = define({
    name: 'boards',
    watch: watching('boards'),
    reconcile: (_board, { event, requeueAfter }) => {
      event('Normal', 'Seen', 'a board');
      requeueAfter(3_600);
    },
  });
  const other = await start(define(), board);
  try {
    await other.apply(team('other'), { ...team('board'), kind: 'Board' });
    await suite.apply(team('first'));
    await Promise.all([other.settle(), suite.settle()]);
    expect(await other.get(maps, { namespace: 'default', name: 'other' })).toBeDefined();
    expect(await mapOf('other')).toBeUndefined();
    expect(other.events()).toContainEqual(
      expect.objectContaining({ object: 'Board default/board', reason: 'Seen' }),
    );
  } finally {
    await other.stop();
  }
});

test('stop during a pass leaves nothing, and so do a failed start and a controller that throws', async () => {
  const known = folders();
  const passing = Promise.withResolvers<undefined>();
  let aborted = false;
  const stopped = await start(
    define({
      reconcile: async ({ metadata }, { signal }) => {
        if (metadata?.name === 'throws') throw new Error('no disk');
        passing.resolve(undefined);
        await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
        aborted = true;
      },
    }),
  );
  await stopped.apply(team('throws'));
  await expect(stopped.settle()).rejects.toThrow('fails again and again: no disk');
  await stopped.apply(team('slow'));
  const settling = expect(stopped.settle()).rejects.toThrow();
  await passing.promise;
  await stopped.stop();
  await settling;
  expect(aborted).toBe(true);
  const wrong = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'Not valid' } };
  await expect(startControllerSuite(define(), { manifests: [wrong] })).rejects.toThrow('Not valid');
  await eventually('no folder is left', () =>
    Promise.resolve(folders().every((name) => known.includes(name))),
  );
});
