import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import {
  again,
  configMap,
  define,
  now,
  readyOf as readyIn,
  run as runTeams,
  team,
} from '../../test/support/teams.ts';
import { createBrake } from './brake.ts';
import { compileController } from './compile-controller.ts';
import type { ControllerContext } from './controller.ts';
import { createMemory } from './memory-world.ts';
import { explainRefusal, runPass } from './pass.ts';

const object = team();
const run = (reconcile: (context: ControllerContext) => unknown) => runTeams(define(reconcile));
const readyOf = async (reconcile: (context: ControllerContext) => unknown) => readyIn(await run(reconcile));

/** A pass over the team, with another way to write its status. */
function passOf(
  reconcile: Parameters<typeof define>[0],
  patchStatus: (write: ReturnType<typeof createMemory>['world']['patchStatus']) => typeof write,
) {
  const controller = compileController('teams', define(reconcile));
  const memory = createMemory(controller, { object, now });
  const world = { ...memory.world, patchStatus: patchStatus(memory.world.patchStatus) };
  const { signal } = new AbortController();
  const running = (deadline = signal) =>
    runPass(
      { controller, world, settled: new Map(), brake: createBrake(), blocked: new Set(), deadline, signal },
      memory.object(),
    );
  return { memory, running };
}

describe('what a controller throws', () => {
  const thrown = (error: unknown) => () => {
    throw error;
  };
  const odd = Object.assign(new Error('x'), { message: undefined });
  const refused = ['::1', '127.0.0.1'].map((host) => new Error(`connect ECONNREFUSED ${host}`));
  const circular = new Error('round');
  circular.cause = circular;
  test.each<[string, unknown, string]>([
    ['undefined', undefined, 'threw undefined, which is not an Error and lacks a stack'],
    ['an error without a message', new TypeError(), 'TypeError'],
    ['an error whose message is no text', odd, 'Error'],
    [
      'a cause, also of several attempts,',
      new TypeError('fetch failed', { cause: new AggregateError(refused) }),
      'fetch failed: connect ECONNREFUSED ::1, connect ECONNREFUSED 127.0.0.1',
    ],
    ['a cause that is no Error', new Error('a', { cause: 'b' }), 'a: b'],
    ['its own cause', circular, 'round'],
    ['a frozen error', Object.freeze(new Error('frozen')), 'frozen'],
    ['a cause with headers', new Error('a', { cause: { headers: { authorization: 'secret' } } }), 'a'],
    [
      'a token',
      new Error('GET https://me:secret@x/ authorization: Bearer abc.def\n failed'),
      'GET https://…@x/ authorization: Bearer … failed',
    ],
  ])('%s has a message in the condition', async (_what, error, message) => {
    expect(await readyOf(thrown(error))).toMatchObject({ reason: 'ReconcileFailed', message });
  });

  test('a long message is cut', async () => {
    const message = (await readyOf(thrown(new Error('😀'.repeat(500_000)))))?.message ?? '';
    expect(message.length).toBeLessThanOrEqual(1_024);
    expect(message.isWellFormed()).toBe(true);
  });
});

describe('a condition', () => {
  test.each<[string, Parameters<ControllerContext['condition']>, string]>([
    ['a reason of two words', ['A', 'True', 'not ready'], 'condition A: the reason "not ready"'],
    ['no reason', ['A', 'True', ''], 'condition A: the reason ""'],
    ['a status in lower case', ['A', 'true' as never, 'Fine'], 'condition A: the status "true"'],
    ['a type with a space', ['A B', 'True', 'Fine'], 'condition A B: the type'],
    ['a type of the framework', ['Stalled', 'True', 'Fine'], 'condition Stalled: call stall'],
  ])('with %s is refused where the author sees it', async (_what, args, message) => {
    const { error } = await run(({ condition }) => condition(...args));
    expect(error?.message).toContain(message);
  });

  test.each<[string, (context: ControllerContext) => void]>([
    ['wait', ({ wait }) => wait('not ready', 'x')],
    ['stall', ({ stall }) => stall('not ready', 'x')],
  ])('of %s has a valid reason', async (name, call) => {
    expect((await run(call)).error?.message).toContain(`${name}: the reason "not ready"`);
  });
});

test.each([Number.POSITIVE_INFINITY, Number.NaN, 1e12, 0, -1])(
  'requeueAfter(%s) is refused: no timer could keep it',
  async (seconds) => {
    const { error } = await run(({ requeueAfter }) => requeueAfter(seconds));
    expect(error?.message).toContain(`requeueAfter: ${seconds} is not a number of seconds`);
  },
);

test('a status field that is undefined is not written, and a second pass writes nothing', async () => {
  const controller = define(({ status }) => status({ address: undefined, size: 1 }));
  const first = await runTeams(controller, { ...object, status: { address: 'old' } });
  expect(first.object).toMatchObject({ status: { address: 'old', size: 1 } });
  expect((await again(controller, first)).writes).toEqual([]);
});

test('a status that the API server refuses is reported in the object', async () => {
  const { memory, running } = passOf(
    ({ status }) => status({ size: 'large' }),
    (write) =>
      async (...args) => {
        if ('size' in args[2]) throw new Error('status.size: Invalid value: must be of type integer');
        return await write(...args);
      },
  );
  expect((await running()).kind).toBe('failed');
  expect(memory.events).toMatchObject([{ type: 'Warning', reason: 'StatusRefused' }]);
  expect(memory.object()).toMatchObject({
    status: { conditions: [{ type: 'Ready', status: 'False', reason: 'StatusRefused' }, {}] },
  });
});

test('a pass ends after code that ignores its signal, even if its status cannot be written', async () => {
  let isRunning = false;
  const { running } = passOf(
    async () => {
      isRunning = true;
      await sleep(100);
      isRunning = false;
    },
    () => () => Promise.reject(new Error('the API server answers 500')),
  );
  await running(AbortSignal.timeout(10)).catch(() => undefined);
  expect(isRunning).toBe(false);
});

describe('progress', () => {
  test('of a second operation stores the result of the first', async () => {
    const controller = define(async ({ progress, status }) => {
      await progress.start('create');
      status({ serverId: 'server-1' });
      progress.finish();
      await progress.start('attach');
      throw new Error('killed');
    });
    const { writes } = await runTeams(controller);
    expect(writes[1]?.body).toMatchObject({ serverId: 'server-1', progress: { operation: 'attach' } });
  });

  test('never uses an id twice, even in the same millisecond', async () => {
    const ids: string[] = [];
    await run(async ({ progress }) => {
      for (let count = 0; count < 2; count += 1) {
        ids.push((await progress.start('create')).id);
        progress.finish();
      }
    });
    expect(new Set(ids).size).toBe(2);
  });
});

test('a missing permission names the rule to add', () => {
  const message =
    'resourcequotas "user" is forbidden: User "system:serviceaccount:gatehouse-system:gatehouse" cannot patch resource "resourcequotas" in API group "" in the namespace "ann"';
  expect(explainRefusal(message)).toBe(
    `Gatehouse needs the rule {"apiGroups":[""],"resources":["resourcequotas"],"verbs":["patch"]}: apply the output of "gatehouse manifests --handlers", or add it to "rules" of the controller: ${message}`,
  );
});

test('a role with more permissions than Gatehouse names the verb', () => {
  const message =
    'rolebindings "user" is forbidden: user "gatehouse" (groups=[]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[""]}';
  expect(explainRefusal(message)).toMatch(/^Gatehouse needs the verb "bind" for the role/);
});

test('a refusal by a webhook is not changed', () => {
  const message = 'admission webhook "x" denied the request: you cannot patch resource quotas';
  expect(explainRefusal(message)).toBe(message);
});

test('a kind in owns that Gatehouse cannot read fails only passes that apply it', async () => {
  const unreadable = [{ group: '', resource: 'endpoints', kind: 'Endpoints', problem: 'no permission' }];
  const errorOf = async (kind: string) => {
    const definition = define(({ apply }) =>
      apply({ apiVersion: 'v1', kind, metadata: { name: 'a', namespace: 'b' } }),
    );
    const controller = compileController('teams', definition);
    const { world, object: stored } = createMemory(controller, { object, now });
    const served = async () => (await world.served()).filter(({ resource }) => resource !== 'endpoints');
    const { signal } = new AbortController();
    const pass = {
      controller,
      world: { ...world, served, unreadable },
      settled: new Map(),
      brake: createBrake(),
      blocked: new Set<string>(),
      deadline: signal,
      signal,
    };
    const result = await runPass(pass, stored());
    return result.kind === 'failed' ? result.error.message : undefined;
  };
  expect(await errorOf('Endpoints')).toBe('no permission');
  expect(await errorOf('ConfigMap')).toBeUndefined();
});

test('a fight with another client names the field and the client', async () => {
  const controller = compileController(
    'teams',
    define(({ apply }) => apply(configMap('a', { data: { size: '1' } }))),
  );
  const memory = createMemory(controller, { object, now });
  const brake = createBrake();
  const { signal } = new AbortController();
  const managedFields = [
    { manager: 'kubectl-edit', operation: 'Update', time: 't', fieldsV1: { 'f:data': { 'f:size': {} } } },
  ];
  const world: typeof memory.world = {
    ...memory.world,
    get: async (...args) => {
      const found = await memory.world.get(...args);
      return found && { ...found, data: { size: '2' } };
    },
    withManagers: () => Promise.resolve({ metadata: { name: 'a', managedFields } } as never),
  };
  for (let pass = 0; pass < 12; pass += 1)
    await runPass(
      { controller, world, settled: new Map(), brake, blocked: new Set(), deadline: signal, signal },
      memory.object(),
    );
  expect(memory.events.at(-1)).toMatchObject({
    reason: 'KeepsChanging',
    message:
      'each pass changes data.size of ConfigMap teams/a, and so does kubectl-edit (Update at t): leave the field to one of them',
  });
});
