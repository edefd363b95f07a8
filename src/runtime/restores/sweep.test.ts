import { setImmediate } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';

import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import type { World } from '../../admission/policy/world.ts';
import { objectKey, type GroupResource, type KubeObject, type ObjectRef } from '../../json/kube-object.ts';
import { compiled, datacenterReference, GROUP, NEVER } from '../../../test/support/runtime/fixtures.ts';
import { createSweep, type SweepSources } from './sweep.ts';

const startedAt = new Date('2026-11-21T12:00:00Z');

interface Server extends KubeObject {
  readonly spec: Readonly<Record<string, unknown>>;
}

/** The stored objects, by resource and key. */
let stored: Record<string, Map<string, KubeObject>>;
let namespaces: Map<string, Record<string, string>>;
let policies: CompiledPolicy[];
let listed: string[];
let reads: string[];

beforeEach(() => {
  stored = { servers: new Map(), datacenters: new Map(), racks: new Map() };
  namespaces = new Map([
    ['shop', { env: 'prod' }],
    ['lab', { env: 'test' }],
  ]);
  policies = [compiled()];
  listed = [];
  reads = [];
});

function server(name: string, spec: Server['spec'], metadata: KubeObject['metadata'] = {}): Server {
  return {
    apiVersion: `${GROUP}/v1`,
    kind: 'Server',
    metadata: { namespace: 'shop', name, uid: `uid-of-${name}`, ...metadata },
    spec,
  };
}

function put(resource: string, ...objects: KubeObject[]): void {
  for (const object of objects) stored[resource]?.set(objectKey(object.metadata ?? {}), object);
}
const datacenter = (name: string): KubeObject => ({ metadata: { name } });

const EMPTY_WORLD: World = {
  find: () => undefined,
  confirm: read,
  read,
  restoreEvidence: () => Promise.resolve(undefined),
};

const sweep = async (...given: Parameters<typeof sweepCluster>) => {
  const { violations, ...result } = await sweepCluster(...given);
  return { ...result, violations: violations.map(({ violation }) => violation) };
};

const sweepCluster = (change: Partial<SweepSources> = {}, interim = false, namespaceMapping = {}) =>
  createSweep({
    policies: () => policies,
    pages: ({ resource }) => pagesOf([...(stored[resource]?.values() ?? [])]),
    keys: ({ resource }) => {
      listed.push(resource);
      return Promise.resolve(new Set(stored[resource]?.keys()));
    },
    read,
    namespaceLabels: () => Promise.resolve(namespaces),
    world: EMPTY_WORLD,
    pause: () => Promise.resolve(),
    now: () => startedAt,
    ...change,
  })({ interim, since: startedAt, namespaceMapping }, NEVER);

function read(ref: ObjectRef): Promise<KubeObject | undefined> {
  reads.push(`${ref.resource} ${objectKey(ref)}`);
  return Promise.resolve(stored[ref.resource]?.get(objectKey(ref)));
}

// eslint-disable-next-line @typescript-eslint/require-await -- the real pages come from the network
async function* pagesOf(...pages: (readonly KubeObject[])[]) {
  yield* pages;
}

const places = async (change: Partial<SweepSources> = {}) =>
  (await sweep(change)).violations.map(
    ({ object, field, target }) => `${object.name} ${field} ${target?.name}`,
  );

test('a reference with a missing target is reported with object, field and target', async () => {
  put(
    'servers',
    server('s1', { datacenter: 'gone' }),
    server('s2', { datacenter: 'fra1' }),
    server('s3', {}),
  );
  put('datacenters', datacenter('fra1'));
  expect(await sweep()).toEqual({
    startedAt,
    finishedAt: startedAt,
    interim: false,
    objectsScanned: 3,
    unreadable: [],
    violations: [
      {
        policy: 'servers',
        reference: 'datacenter',
        object: {
          apiVersion: `${GROUP}/v1`,
          kind: 'Server',
          namespace: 'shop',
          name: 's1',
          uid: 'uid-of-s1',
        },
        field: 'spec.datacenter',
        reason: 'TargetMissing',
        target: { group: GROUP, resource: 'datacenters', name: 'gone' },
      },
    ],
  });
});

test('a sweep is not clean while a policy cannot be evaluated', async () => {
  policies = [{ ...compiled(), undecidable: { message: 'no such kind', isTemporary: true } }];
  expect(await sweep()).toMatchObject({ objectsScanned: 0, unreadable: ['policy servers: no such kind'] });
});

test('a sweep is marked as interim when it is one', async () => {
  expect((await sweep({}, true)).interim).toBe(true);
});

test('nothing is read for policies without references', async () => {
  policies = [compiled({ validate: { immutable: ['spec.datacenter'] } })];
  put('servers', server('s1', { datacenter: 'gone' }));
  expect(await sweep()).toMatchObject({ objectsScanned: 0, violations: [], unreadable: [] });
});

test('every page is swept, and each kind of target is listed once', async () => {
  const pages = () =>
    pagesOf([server('s1', { datacenter: 'gone' })], [], [server('s2', { datacenter: 'gone' })]);
  put('servers', server('s1', { datacenter: 'gone' }), server('s2', { datacenter: 'gone' }));
  const result = await sweep({ pages });
  expect(result.objectsScanned).toBe(2);
  expect(result.violations).toHaveLength(2);
  expect(listed).toEqual(['datacenters']);
});

test('a kind that two policies govern is read once', async () => {
  const rack = { name: 'rack', path: 'spec.rack', target: { apiGroup: GROUP, resource: 'racks' } };
  policies = [compiled(), compiled({ validate: { references: [rack] } }, { name: 'more', generation: 1 })];
  put('servers', server('s1', { datacenter: 'gone', rack: 'gone' }));
  const result = await sweep();
  expect(result.objectsScanned).toBe(1);
  expect(result.violations.map(({ policy }) => policy)).toEqual(['servers', 'more']);
});

test('a namespaced target is looked up in the namespace of the object', async () => {
  const rack = { name: 'rack', path: 'spec.rack', target: { apiGroup: GROUP, resource: 'racks' } };
  policies = [compiled({ validate: { references: [rack] } })];
  put('servers', server('s1', { rack: 'r1' }), server('s2', { rack: 'r1' }, { namespace: 'lab' }));
  put('racks', { metadata: { namespace: 'lab', name: 'r1' } });
  const { violations } = await sweep();
  expect(violations).toMatchObject([{ object: { name: 's1' }, target: { namespace: 'shop', name: 'r1' } }]);
});

describe('a stale page causes no false report:', () => {
  const stalePage = (...objects: Server[]): Partial<SweepSources> => ({ pages: () => pagesOf(objects) });

  test('of an object that is deleted by now', async () => {
    expect(await places(stalePage(server('s1', { datacenter: 'gone' })))).toEqual([]);
  });

  test('of an object that names another target by now', async () => {
    put('servers', server('s1', { datacenter: 'fra1' }));
    put('datacenters', datacenter('fra1'));
    expect(await places(stalePage(server('s1', { datacenter: 'gone' })))).toEqual([]);
  });

  test('of a target that was created after the list', async () => {
    put('servers', server('s1', { datacenter: 'fra1' }));
    put('datacenters', datacenter('fra1'));
    expect(await places({ keys: () => Promise.resolve(new Set()) })).toEqual([]);
  });

  test('and a reference that has moved within its object is reported with its current field', async () => {
    const disks = { ...datacenterReference, path: 'spec.disks[*].site' };
    policies = [compiled({ validate: { references: [disks] } })];
    put('servers', server('s1', { disks: [{ site: 'gone' }] }));
    put('datacenters', datacenter('fra1'));
    const before = server('s1', { disks: [{ site: 'fra1' }, { site: 'gone' }] });
    expect(await places(stalePage(before))).toEqual(['s1 spec.disks[0].site gone']);
  });
});

test('two references on one field are checked against their own targets', async () => {
  const place = { name: 'rack', path: 'spec.datacenter', target: { apiGroup: GROUP, resource: 'racks' } };
  policies = [compiled({ validate: { references: [datacenterReference, place] } })];
  put('servers', server('s1', { datacenter: 'fra1' }));
  put('datacenters', datacenter('fra1'));
  const { violations } = await sweep();
  expect(violations).toMatchObject([{ reference: 'rack', target: { resource: 'racks', name: 'fra1' } }]);
});

test('every missing target of an object is reported once', async () => {
  const disks = { ...datacenterReference, path: 'spec.disks[*].site' };
  policies = [compiled({ validate: { references: [disks] } })];
  put('servers', server('s1', { disks: [{ site: 'gone' }, { site: 'fra1' }, { site: 'gone' }] }));
  put('datacenters', datacenter('fra1'));
  expect(await places()).toEqual(['s1 spec.disks[0].site gone', 's1 spec.disks[2].site gone']);
});

test('an object with a deletionTimestamp is reported until it is gone: the timestamp may be forged', async () => {
  put('servers', server('s1', { datacenter: 'gone' }, { deletionTimestamp: '2026-11-21T11:59:00Z' }));
  expect(await places()).toEqual(['s1 spec.datacenter gone']);
});

test('a valid object costs no live read', async () => {
  put('servers', server('s1', { datacenter: 'fra1' }));
  put('datacenters', datacenter('fra1'));
  expect(await places()).toEqual([]);
  expect(reads).toEqual([]);
});

describe('selectors are respected:', () => {
  const match = { apiGroups: [GROUP], resources: ['servers'] };

  test('namespaces that are not selected are left out', async () => {
    policies = [compiled({ match: { ...match, namespaceSelector: { matchLabels: { env: 'prod' } } } })];
    put(
      'servers',
      server('s1', { datacenter: 'gone' }),
      server('s2', { datacenter: 'gone' }, { namespace: 'lab' }),
      server('s3', { datacenter: 'gone' }, { namespace: 'unknown' }),
    );
    expect(await places()).toEqual(['s1 spec.datacenter gone']);
  });

  test('a namespaceSelector leaves out no cluster-scoped object', async () => {
    policies = [compiled({ match: { ...match, namespaceSelector: { matchLabels: { env: 'prod' } } } })];
    put('servers', { ...server('s1', { datacenter: 'gone' }), metadata: { name: 's1' } });
    expect(await places()).toEqual(['s1 spec.datacenter gone']);
  });

  test('objects that are not selected are left out', async () => {
    policies = [compiled({ match: { ...match, objectSelector: { matchLabels: { tier: 'gold' } } } })];
    put(
      'servers',
      server('s1', { datacenter: 'gone' }, { labels: { tier: 'gold' } }),
      server('s2', { datacenter: 'gone' }),
    );
    expect(await places()).toEqual(['s1 spec.datacenter gone']);
  });
});

test('match conditions on the object leave it out; others, and those that fail, do not', async () => {
  put('servers', server('s1', { datacenter: 'gone', managed: true }), server('s2', { datacenter: 'gone' }));
  const found = async (...expressions: string[]) => {
    const matchConditions = expressions.map((expression, index) => ({ name: `c${index}`, expression }));
    policies = [compiled({ match: { apiGroups: [GROUP], resources: ['servers'], matchConditions } })];
    return (await places()).map((place) => place.split(' ', 1)[0]);
  };
  expect(await found('!has(object.spec.managed)')).toEqual(['s2']);
  expect(await found('true', '!has(object.spec.managed)')).toEqual(['s2']);
  expect(await found('!object.spec.managed')).toEqual(['s2']);
  expect(await found('object.spec.managed && request.userInfo.username == "ci"')).toEqual(['s1', 's2']);
  expect(await found('oldObject != null && has(object.spec.managed)')).toEqual(['s1', 's2']);
});

describe('a kind that cannot be read is reported, and the others are swept:', () => {
  const away = new Error('the API server is away');
  const failingFor = (failing: string) => (resource: GroupResource) =>
    resource.resource === failing ? Promise.reject(away) : Promise.resolve(new Set<string>());

  beforeEach(() => {
    policies = [compiled({ match: { apiGroups: [GROUP], resources: ['racks', 'servers'] } })];
    put('servers', server('s1', { datacenter: 'gone' }));
    put('racks', { ...server('r1', { datacenter: 'gone' }), kind: 'Rack' });
  });

  test('when its objects cannot be listed', async () => {
    const { unreadable, violations } = await sweep({
      pages: async function* ({ resource }) {
        if (resource === 'racks') throw away;
        yield* pagesOf([...(stored.servers?.values() ?? [])]);
      },
    });
    expect(unreadable).toEqual([`racks.${GROUP}: the API server is away`]);
    expect(violations).toHaveLength(1);
  });

  test('when reading fails between two pages, with the violations found until then', async () => {
    const { unreadable, violations, objectsScanned } = await sweep({
      pages: async function* ({ resource }) {
        yield* pagesOf([...(stored[resource]?.values() ?? [])]);
        if (resource === 'servers') throw away;
      },
    });
    expect(unreadable).toEqual([`servers.${GROUP}: the API server is away`]);
    expect(violations).toHaveLength(2);
    expect(objectsScanned).toBe(2);
  });

  test('when its targets cannot be listed', async () => {
    const { unreadable } = await sweep({ keys: failingFor('datacenters') });
    expect(unreadable).toHaveLength(2);
  });

  test('when a finding cannot be confirmed', async () => {
    const { unreadable, violations } = await sweep({ read: () => Promise.reject(away) });
    expect(unreadable).toHaveLength(2);
    expect(violations).toEqual([]);
  });
});

describe('live reads', () => {
  /** Servers whose target does not exist. */
  const suspects = (count: number): void => {
    put('servers', ...Array.from({ length: count }, (_, n) => server(`s${n}`, { datacenter: `gone-${n}` })));
  };

  test('are made at the same time, and never more than sixteen', async () => {
    suspects(200);
    let [inFlight, most] = [0, 0];
    const { violations } = await sweep({
      read: async (ref) => {
        most = Math.max(most, (inFlight += 1));
        await setImmediate();
        inFlight -= 1;
        return await read(ref);
      },
    });
    expect(violations).toHaveLength(200);
    expect(most).toBe(16);
  });

  test('that fail leave out one object, and twenty of them the rest of the kind', async () => {
    suspects(200);
    const failing = (isFailing: (name: string) => boolean) =>
      sweep({
        read: (ref) =>
          isFailing(ref.name) ? Promise.reject(new Error('a timeout')) : Promise.resolve(read(ref)),
      });
    const one = await failing((name) => name === 's7');
    expect(one.violations).toHaveLength(199);
    expect(one.unreadable).toEqual([`servers.${GROUP}: a timeout`]);
    reads = [];
    const all = await failing((name) => /^s\d/.test(name));
    expect(all.violations).toEqual([]);
    expect(all.unreadable).toEqual([`servers.${GROUP}: a timeout`]);
  });

  test('that fail after the pause keep the violation, and the sweep is not complete', async () => {
    suspects(2);
    let isAway = false;
    const { violations, unreadable } = await sweep({
      pause: () => {
        isAway = true;
        return Promise.resolve();
      },
      read: (ref) => (isAway && ref.name === 'gone-1' ? Promise.reject(new Error('a timeout')) : read(ref)),
    });
    expect(violations).toHaveLength(2);
    expect(unreadable).toEqual([`datacenters.${GROUP}: a timeout`]);
  });
});

test('an aborted sweep fails instead of reporting every kind as unreadable', async () => {
  put('servers', server('s1', { datacenter: 'gone' }));
  const stop = new AbortController();
  const stopped = createSweep({
    policies: () => policies,
    pages: () => {
      stop.abort(new Error('no longer leading'));
      throw new Error('aborted');
    },
    keys: () => Promise.resolve(new Set()),
    read,
    namespaceLabels: () => Promise.resolve(namespaces),
    world: EMPTY_WORLD,
    pause: () => Promise.resolve(),
    now: () => startedAt,
  });
  const options = { interim: false, since: startedAt, namespaceMapping: {} };
  await expect(stopped(options, stop.signal)).rejects.toThrow('no longer leading');
});

describe('checks other than references', () => {
  const reasons = async (...asked: Parameters<typeof sweep>) =>
    (await sweep(...asked)).violations.map(
      ({ object, reason, field }) => `${object.name} ${reason} ${field}`,
    );

  test('a value of two objects is reported for both, only while both have it', async () => {
    policies = [compiled({ validate: { unique: [{ name: 'serial', paths: ['spec.serial'] }] } })];
    put(
      'servers',
      server('s1', { serial: 'a' }),
      server('s2', { serial: 'a' }),
      server('s3', { serial: 'b' }),
    );
    expect(await reasons()).toEqual(['s1 Duplicate spec.serial', 's2 Duplicate spec.serial']);
    const changed = (ref: ObjectRef) =>
      ref.name === 's2' ? Promise.resolve(server('s2', { serial: 'c' })) : read(ref);
    expect(await reasons({ read: changed })).toEqual([]);
  });

  test('the sweep repeats only deferred checks', async () => {
    const schema = { properties: { spec: { properties: { units: { maximum: 4 } } } } };
    put('servers', server('s1', { units: 9 }), server('s2', { units: 1 }));
    policies = [compiled({ validate: { schema }, restore: { schema: 'Defer' } })];
    expect(await reasons()).toEqual(['s1 CheckFailed spec.units']);
    policies = [compiled({ validate: { schema } })];
    expect(await reasons()).toEqual([]);
  });

  test('a rule that reads a target is checked too, because it may have been deferred with the reference', async () => {
    const rules = [
      { name: 'fits', expression: 'object.spec.units <= refs.datacenter.spec.capacity' },
      { name: 'few', expression: 'object.spec.units < 3' },
    ];
    policies = [compiled({ validate: { references: [datacenterReference], rules } })];
    const fra1: Server = { metadata: { name: 'fra1' }, spec: { capacity: 4 } };
    put('datacenters', fra1);
    put(
      'servers',
      server('s1', { units: 9, datacenter: 'fra1' }),
      server('s2', { units: 4, datacenter: 'fra1' }),
      server('s3', { units: 9, datacenter: 'gone' }),
    );
    expect(await reasons()).toEqual(['s1 CheckFailed ', 's3 TargetMissing spec.datacenter']);
    policies = [
      compiled({
        validate: { references: [datacenterReference], rules },
        restore: { references: 'Enforce' },
      }),
    ];
    expect(await reasons()).toEqual(['s3 TargetMissing spec.datacenter']);
  });

  test('an exempt object is not reported, and holds no unique value', async () => {
    const exempt = (checks?: string[]) => ({ exceptions: [{ name: 'old', names: ['s1'], checks }] });
    const validate = {
      references: [datacenterReference],
      unique: [{ name: 'serial', paths: ['spec.serial'] }],
      schema: { properties: { spec: { properties: { units: { maximum: 4 } } } } },
    };
    const policy = (exceptions: object) =>
      compiled({ validate, restore: { schema: 'Defer' }, ...exceptions });
    put(
      'servers',
      server('s1', { datacenter: 'gone', serial: 'a', units: 9 }),
      server('s2', { datacenter: 'gone', serial: 'a', units: 9 }),
      server('s3', { datacenter: 'fra1', serial: 'a' }),
    );
    put('datacenters', datacenter('fra1'));
    const s2 = ['s2 TargetMissing spec.datacenter', 's2 CheckFailed spec.units'];
    const others = ['s2 Duplicate spec.serial', 's3 Duplicate spec.serial'];
    policies = [policy(exempt())];
    expect(await reasons()).toEqual([...s2, ...others]);
    policies = [policy(exempt(['unique']))];
    expect(await reasons()).toEqual([
      's1 TargetMissing spec.datacenter',
      's1 CheckFailed spec.units',
      's2 TargetMissing spec.datacenter',
      's2 CheckFailed spec.units',
      ...others,
    ]);
    policies = [policy({ exceptions: [{ name: 'old', names: ['s1', 's2'] }] })];
    expect(await reasons()).toEqual([]);
    policies = [policy({ exceptions: [{ name: 'old', names: ['s*'], expiresAt: '2026-11-21T11:00:00Z' }] })];
    expect(await reasons()).toContain('s1 TargetMissing spec.datacenter');
    policies = [policy({ exceptions: [{ name: 'admins', names: ['s*'], users: ['admin'] }] })];
    expect(await reasons()).toContain('s1 TargetMissing spec.datacenter');
  });

  test('objects are read in the version that the policy matches', async () => {
    const old = { ...server('s1', { datacenter: 'gone' }), apiVersion: `${GROUP}/v1` };
    const preferred = { ...server('s1', {}), apiVersion: `${GROUP}/v2` };
    const inVersion = ({ version }: { version?: string }) => (version === 'v1' ? old : preferred);
    policies = [
      compiled({ match: { apiGroups: [GROUP], apiVersions: ['v1'], resources: ['servers'] } }),
      compiled({}, { name: 'any-version', generation: 1 }),
    ];
    const found = await sweep({
      pages: (kind) => pagesOf([inVersion(kind)]),
      read: (ref) => (ref.resource === 'servers' ? Promise.resolve(inVersion(ref)) : read(ref)),
    });
    expect(found.violations.map(({ policy, reason }) => `${policy} ${reason}`)).toEqual([
      'servers TargetMissing',
    ]);
  });

  test('a default is reported as missing if the restore created the object without it', async () => {
    policies = [compiled({ validate: {}, defaults: [{ path: 'spec.tier', value: 'standard' }] })];
    put(
      'servers',
      server('new', {}, { creationTimestamp: '2026-11-21T12:00:00Z' }),
      server('filled', { tier: 'x' }, { creationTimestamp: '2026-11-21T12:00:00Z' }),
      server('old', {}, { creationTimestamp: '2026-11-21T11:00:00Z' }),
    );
    expect(await reasons()).toEqual(['new DefaultWouldChange spec.tier']);
  });

  test('A9: a copy that refers to its source namespace is reported', async () => {
    const rack = {
      name: 'rack',
      path: 'spec.rack',
      namespacePath: 'spec.rackNamespace',
      target: { apiGroup: GROUP, resource: 'racks' },
    };
    policies = [compiled({ validate: { references: [rack] } })];
    const copy = { namespace: 'prod-copy' };
    put(
      'racks',
      { metadata: { namespace: 'prod', name: 'r1' } },
      { metadata: { namespace: 'prod-copy', name: 'r1' } },
    );
    put(
      'servers',
      server('s1', { rack: 'r1', rackNamespace: 'prod' }, copy),
      server('s2', { rack: 'r1', rackNamespace: 'prod-copy' }, copy),
    );
    const mapping = { prod: 'prod-copy' };
    expect(await reasons({}, false, mapping)).toEqual(['s1 CrossesNamespaceMapping spec.rack']);
    expect(await reasons()).toEqual([]);
  });

  test('a target that is created between the two reads is not missing', async () => {
    put('servers', server('s1', { datacenter: 'late' }));
    const pause = () => {
      put('datacenters', datacenter('late'));
      return Promise.resolve();
    };
    expect(await reasons({ pause })).toEqual([]);
  });
});
