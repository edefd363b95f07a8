import { describe, expect, test } from 'vitest';
import { veleroDetector } from '../../test/support/velero-detector.ts';
import { EXCLUDE_FROM_BACKUP_LABEL } from '../api/group.ts';
import type { RestoreWindow, RestoreWindowSpec } from '../api/restore-window.ts';
import {
  completeWindow,
  objectionsTo,
  type OwnKindContext,
  type OwnKindRequest,
} from './window-admission.ts';
import { OPENED_BY, OPENER_SCOPE, SWEEP_FINALIZER } from './window.ts';

const NOW = new Date('2026-11-21T12:00:00Z');
const VELERO = { username: 'system:serviceaccount:velero:velero', groups: ['system:serviceaccounts:velero'] };
const ALICE = { username: 'alice', groups: ['system:authenticated'] };
/** A backup tool that may do everything. No detector and no open window names it any more. */
const TOOL = { username: 'system:serviceaccount:tools:restore', groups: [] };
const OURS = { username: 'system:serviceaccount:gatehouse-system:gatehouse', groups: [] };

const SPEC: RestoreWindowSpec = { principals: [{ user: 'restorer' }], expiresAt: '2026-11-21T13:00:00Z' };
const window = (spec: Partial<RestoreWindowSpec> = {}, metadata: object = {}): RestoreWindow => ({
  metadata: { name: 'drill', ...metadata },
  spec: { ...SPEC, ...spec },
});

/** Where the user has the verb `open`: everywhere, in every single namespace, or nowhere. */
type Open = boolean | 'in namespaces';

/** Records the permission checks. */
const worldOf = (mayOpen: Open, asked: string[] = []): OwnKindContext => ({
  restorers: [{ group: 'system:serviceaccounts:velero' }],
  isOurs: ({ username }) => username === OURS.username,
  mayOpen: (name, namespaces) => {
    asked.push([name ?? '', ...namespaces].join(' '));
    return Promise.resolve(mayOpen === 'in namespaces' ? namespaces.length > 0 : mayOpen);
  },
  mayPatch: ({ resource }, namespaces) => {
    asked.push(`patch ${[resource, ...namespaces].join(' ')}`);
    return Promise.resolve(resource !== 'daemonsets');
  },
  now: NOW,
});

const creation = (object: RestoreWindow, user = ALICE): OwnKindRequest => ({
  operation: 'CREATE',
  resource: 'restorewindows',
  subResource: '',
  user,
  object,
  oldObject: undefined,
});
const change = (before: RestoreWindow, after: RestoreWindow, user = ALICE): OwnKindRequest => ({
  ...creation(after, user),
  operation: 'UPDATE',
  oldObject: before,
});
const said = async (request: OwnKindRequest, mayOpen: Open = true, asked: string[] = []) =>
  (await objectionsTo(request, worldOf(mayOpen, asked)))
    .map(({ field, message }) => `${field}: ${message}`)
    .join('\n');

describe('S2: opening a window', () => {
  test.each([
    [{ user: 'system:serviceaccount:shop:restore' }, true],
    [{ group: 'system:serviceaccounts:store' }, true],
    [{ user: 'system:serviceaccount:velero:velero' }, false],
    [{ user: 'system:serviceaccount:shopping:restore' }, false],
    [{ group: 'alice' }, false],
  ])('in namespaces is for the opener and the service accounts there: %o %s', async (principal, allowed) => {
    const narrow = window({
      principals: [{ user: 'alice' }, principal],
      match: { namespaces: { include: ['shop', 'store'] } },
    });
    // completeWindow returns a window for a window
    const stored = completeWindow(creation(narrow), NOW, false) as RestoreWindow;
    const refusal = 'spec.principals[1]: you may open RestoreWindows only in shop, store: name yourself';
    const answer = await said(creation(stored), 'in namespaces');
    if (allowed) expect(answer).toBe('');
    else expect(answer).toContain(refusal);
    expect(await said(creation(narrow), true)).toBe('');
  });

  test('with a guard needs permission for the whole cluster', async () => {
    const include = ['shop'];
    const principals = [{ group: 'system:serviceaccounts:shop' }];
    const guarded = window({
      principals,
      match: { namespaces: { include } },
      guard: { refuse: ['APIServices'] },
    });
    expect(await said(creation(guarded), 'in namespaces')).toContain('spec.guard: only users who may open');
    expect(await said(creation(guarded))).toBe('');
  });

  test('has at most 64 namespaces, unless the user may open windows for the whole cluster', async () => {
    const include = Array.from({ length: 65 }, (_, at) => `ns-${at}`);
    const wide = window({ match: { namespaces: { include } } });
    const asked: string[] = [];
    expect(await said(creation(wide), false, asked)).toContain('at most 64: open several windows');
    expect(await said(creation(wide), true, asked)).toBe('');
    expect(asked).toEqual(['drill', 'drill']);
    const repeated = window({ match: { namespaces: { include: include.map(() => 'shop') } } });
    await said(creation(repeated), false, asked);
    expect(asked.slice(2)).toEqual(['drill', 'drill shop']);
  });

  test('is always allowed for Gatehouse itself', async () => {
    const detected = window({ source: { type: 'Detector', detector: 'velero' } });
    const asked: string[] = [];
    expect(await said(creation(detected, OURS), false, asked)).toBe('');
    expect(asked).toEqual([]);
    expect(await said(creation(detected))).toContain('only Gatehouse itself opens windows of type Detector');
  });
});

describe('S7: the names of windows that Gatehouse opens', () => {
  test.each([
    'velero-3fa9c2d81b0e',
    'any.thing-000000000000',
    'rollback-501',
    'rollback-501-1',
    'startup-17',
  ])('%s is refused as the name of a Manual window, regardless of permissions', async (name) => {
    expect(await said(creation(window({}, { name })))).toContain(`metadata.name: ${name} is reserved`);
    expect(await said(creation(window({}, { name }), OURS))).toBe('');
  });

  test.each(['manual-20261121-234457', 'velero', 'rollback-drill', 'before-startup-1', 'a-3fa9c2d81b0'])(
    '%s is free',
    async (name) => {
      expect(await said(creation(window({}, { name })))).toBe('');
    },
  );

  test('a window that has such a name already can be closed', async () => {
    const before = window({}, { name: 'rollback-501' });
    expect(await said(change(before, { ...before, spec: { ...before.spec, close: true } }))).toBe('');
  });
});

describe('S3: a restorer', () => {
  test('may end its own window earlier, and change nothing else', async () => {
    const own = (spec: Partial<RestoreWindowSpec> = {}, metadata: object = {}) =>
      window({ principals: [{ group: 'system:serviceaccounts:velero' }], ...spec }, metadata);
    expect(await said(change(own(), own({ close: true }), VELERO))).toBe('');
    expect(await said(change(own(), own({ expiresAt: '2026-11-21T12:30:00Z' }), VELERO))).toBe('');
    const approval = own({ sweep: { approved: true } });
    expect(await said(change(own({ sweep: {} }), approval, VELERO))).toContain('may not write');
    const labelled = own({}, { labels: { 'velero.io/restore-name': 'nightly' } });
    expect(await said(change(own(), labelled, VELERO))).toContain('may not write');
  });

  test('cannot end a window that guards against it', async () => {
    const guard = { refuse: ['Permissions'] as const };
    const guarded = window({ principals: [{ group: 'system:serviceaccounts:velero' }], guard });
    const closed = { ...guarded, spec: { ...guarded.spec, close: true } };
    expect(await said(change(guarded, closed, VELERO))).toContain('may not write');
    expect(await said(change(guarded, closed))).toBe('');
  });

  test('is every user in its group, unless the user may open windows for the whole cluster', async () => {
    const user = { username: 'bob', groups: VELERO.groups };
    const request = { ...change(window(), window(), user), resource: 'uniqueclaims' };
    expect(await said(request, 'in namespaces')).toContain('may not write uniqueclaims.gatehouse.dev');
    expect(await said(request)).toBe('');
    expect(await said({ ...request, user: TOOL })).toBe('');
    expect(await said({ ...request, user: { ...TOOL, groups: VELERO.groups } })).toContain('may not write');
  });
});

describe('S5: a window', () => {
  test.each<[string, Partial<RestoreWindowSpec>, string]>([
    ['longer than a day', { expiresAt: '2026-11-22T12:02:00Z' }, 'it is more than 24 hours ahead'],
    ['without a restorer', { principals: [] }, 'add at least one restorer'],
    ...[
      { user: 'system:anonymous' },
      { group: 'system:unauthenticated' },
      { group: 'system:serviceaccounts:kube-system' },
    ].map((principal): [string, Partial<RestoreWindowSpec>, string] => [
      `for ${principal.group ?? principal.user}`,
      { principals: [principal] },
      `${principal.group ?? principal.user} is not one restorer`,
    ]),
  ])('%s is refused', async (_which, spec, message) => {
    expect(await said(creation(window(spec)))).toContain(message);
  });

  test.each([
    { user: 'jane' },
    { user: 'system:serviceaccount:kube-system:backup' },
    { group: 'restorers' },
    { group: 'system:serviceaccounts:velero' },
  ])('for %s may be opened', async (principal) => {
    expect(await said(creation(window({ principals: [principal] })))).toBe('');
  });

  test.each<[string, Partial<RestoreWindowSpec>]>([
    ['spec.reason', { reason: 'another' }],
    ['spec.sweep', { sweep: { relinkOwners: 'Off' } }],
  ])('does not allow changes to %s', async (field, spec) => {
    expect(await said(change(window(), window(spec)))).toContain(`${field}: `);
  });

  test('cannot get the labels of a restored one: it would close, and no sweep would follow', async () => {
    const labels = { 'velero.io/restore-name': 'nightly' };
    expect(await said(change(window(), window({}, { labels })))).toContain('comes from a backup');
    const both = window({ close: true }, { labels });
    expect(await said(change(window({}, { labels }), both))).toBe('');
  });

  test('allows approval of its links only with the verb open', async () => {
    const before = window({ sweep: { requireApprovalToLink: true } });
    const after = window({ sweep: { requireApprovalToLink: true, approved: true } });
    expect(await said(change(before, after), false)).toContain('the verb "open"');
    expect(await said(change(before, after))).toBe('');
    expect(await said(change(after, before))).toContain('spec.sweep');
  });
});

describe('a status', () => {
  const statusOf = (resource: string, user: typeof ALICE): OwnKindRequest => {
    const before = window({ principals: [{ user: VELERO.username }] });
    const after: RestoreWindow = { ...before, status: { phase: 'Completed' } };
    return { ...change(before, after, user), resource, subResource: 'status' };
  };
  const kinds = ['restorewindows', 'restoredetectors', 'admissionpolicies', 'conversionpolicies'];

  test.each(kinds)('of %s is written by Gatehouse alone: restorers may be users too', async (resource) => {
    const asked: string[] = [];
    expect(await said(statusOf(resource, OURS), false, asked)).toBe('');
    expect(await said(statusOf(resource, ALICE), true, asked)).toContain('only Gatehouse writes');
    expect(asked).toEqual([]);
    for (const tool of [VELERO, TOOL])
      expect(await said(statusOf(resource, tool))).toContain(`: only Gatehouse writes ${resource}/status: `);
  });

  test('of a window is refused with the advice to close it', async () => {
    expect(await said(statusOf('restorewindows', ALICE))).toContain('set spec.close to true');
  });
});

test('a detector can be created and changed only with the verb open, and its problems are reported', async () => {
  const request = (change: object): OwnKindRequest => ({
    operation: 'CREATE',
    resource: 'restoredetectors',
    subResource: '',
    user: ALICE,
    object: veleroDetector(change),
    oldObject: undefined,
  });
  expect(await said(request({}))).toBe('');
  expect(await said(request({}), false)).toContain('the verb "open"');
  expect(await said(request({ namespaces: ['*'] }))).toContain('spec.namespaces: ');
  expect(await said(request({ phasePath: 'status[0' }))).toContain('spec.phasePath: ');
});

describe('a stored window', () => {
  test('is excluded from backups and records its opener, regardless of the request', () => {
    const forged = window({}, { annotations: { [OPENED_BY]: 'root', [OPENER_SCOPE]: 'Cluster', a: 'b' } });
    expect(completeWindow(creation(forged), NOW, false)?.metadata).toMatchObject({
      finalizers: [SWEEP_FINALIZER],
      labels: { [EXCLUDE_FROM_BACKUP_LABEL]: 'true' },
      annotations: { [OPENED_BY]: 'alice', a: 'b' },
    });
    expect(completeWindow(creation(forged), NOW, false)?.metadata?.annotations).not.toHaveProperty([
      OPENER_SCOPE,
    ]);
  });

  test('always keeps its opener', () => {
    // completeWindow returns a window for a window
    const opened = completeWindow(creation(window()), NOW, true) as RestoreWindow;
    const stripped = { ...opened, metadata: { name: 'drill', finalizers: [SWEEP_FINALIZER] } };
    expect(completeWindow(change(opened, stripped, VELERO), NOW, false)?.metadata).toEqual(opened.metadata);
    expect(completeWindow(change(opened, opened, VELERO), NOW, false)).toBe(opened);
  });
});

describe('a rule of spec.quiesce', () => {
  const rule = (resource: string) => ({ apiGroup: 'apps', resource, matchLabels: { app: 'x' } });
  const quiesce = [rule('deployments'), rule('daemonsets')];
  const refusal = 'spec.quiesce[1]: you lack permission to patch daemonsets.apps there';

  test('needs the permission of the user to patch the kind where the window covers it', async () => {
    const asked: string[] = [];
    const match = { namespaces: { include: ['shop'] } };
    expect(await said(creation(window({ match, quiesce })), true, asked)).toContain(refusal);
    expect(asked).toContain('patch deployments shop');
    expect(await said(creation(window({ quiesce: [rule('deployments')] })), true)).toBe('');
  });

  test('in a detector needs the same, unless it does not change', async () => {
    const detector = veleroDetector({ quiesce });
    const request = { ...creation(window()), resource: 'restoredetectors', object: detector };
    expect(await said(request)).toContain(refusal);
    const before = { ...detector, spec: { ...detector.spec, activeValues: ['Running'] } };
    expect(await said({ ...request, operation: 'UPDATE', oldObject: before })).toBe('');
  });

  test.each([
    [{ matchLabels: { 'a b': 'x' } }, '"a b=x" is not a label'],
    [{ path: 'metadata.finalizers' }, 'is not a field of spec'],
    [{ path: 'spec.list[*].a' }, 'is not a field of spec'],
    [{ path: 'metadata.annotations["gatehouse.dev/quiesced"]', value: 'x' }, 'Gatehouse itself uses'],
    [{ path: 'metadata.annotations["a.b/c"]', value: true }, 'annotations need a string'],
    [{ path: 'metadata.labels["a.b/c"]', value: 'not a label' }, 'labels need a string'],
    [{ path: 'metadata.labels["a"]', value: 'b', matchLabels: { a: 'x' } }, 'matchLabels selects by "a"'],
    [{ value: null }, 'spec.quiesce[0].value: null'],
    [{ value: ['x'.repeat(5_000)] }, 'spec.quiesce[0].value: it has more than 4096 characters'],
  ])('%j is refused', async (change: object, message) => {
    expect(await said(creation(window({ quiesce: [{ ...rule('deployments'), ...change }] })))).toContain(
      message,
    );
  });

  test.each([
    { path: 'metadata.annotations["cnpg.io/reconciliationLoop"]', value: 'disabled' },
    { path: 'metadata.labels["example.com/paused"]', value: 'true', matchLabels: undefined },
    { path: 'spec.managementPolicies', value: ['Observe'] },
  ])('%j is accepted', async (change) => {
    const spec = { quiesce: [{ ...rule('deployments'), ...change }] } as Partial<RestoreWindow['spec']>;
    expect(await said(creation(window(spec)), true)).toBe('');
  });
});
