/** Whom the API server asks, what it asks, and what it makes of the answers. */
import type { Api, Loose } from '../api.ts';
import { group } from '../case.ts';
import { configMap, gadget, gadgets, widget, widgets } from '../fixtures.ts';
import { upToColon } from '../wording.ts';
import { allow, deny, patched, type Handler, type Reply, type Review } from '../webhooks.ts';

/** A validating webhook that answers like this; `changes` are made to its entry. */
async function validate(
  api: Api,
  handler: Handler,
  changes: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  api.hooks.serve('hook', handler);
  await api.install({ kind: 'Validating', webhooks: [api.hooks.entry('hook', changes)] });
}

async function mutate(
  api: Api,
  handler: Handler,
  changes: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  api.hooks.serve('hook', handler);
  await api.install({ kind: 'Mutating', webhooks: [api.hooks.entry('hook', changes)] });
}

/** A rule for widgets and gadgets. */
const rule = (operations: readonly string[], resources: readonly string[], more: object = {}) => ({
  rules: [
    {
      apiGroups: ['conformance.example.com'],
      apiVersions: ['*'],
      operations,
      resources,
      scope: '*',
      ...more,
    },
  ],
});

/** The request of a review without what the case is not about; of the user only the name. */
const asked = ({ apiVersion, kind, request }: Review): unknown => {
  const { uid, userInfo, ...rest } = request as Review['request'] & {
    readonly userInfo: { readonly username: string };
  };
  return { apiVersion, kind, hasUid: uid !== '', ...rest, userInfo: { username: userInfo.username } };
};

/** Only what was done to what. */
const briefly = ({ request }: Review): unknown => {
  const { operation, resource, subResource, name, namespace, object, oldObject } = request;
  const { resource: plural, version } = resource as { readonly resource: string; readonly version: string };
  return {
    asked: [operation, plural, version, subResource ?? '', namespace ?? '', name ?? ''].join(' '),
    hasObject: object !== null,
    hasOldObject: oldObject !== null,
  };
};

const labelled = (object: Loose | null | undefined, label: string): Reply =>
  patched(
    ...(object?.metadata.labels === undefined ? [{ op: 'add', path: '/metadata/labels', value: {} }] : []),
    { op: 'add', path: `/metadata/labels/${label}`, value: 'yes' },
  );

const addLabel =
  (label: string): Handler =>
  ({ request: { object } }) =>
    labelled(object, label);

export const webhooks = group('webhooks', {
  'a creation is shown as it will be': async (api) => {
    await validate(api, () => allow());
    await api.create('configmaps', configMap('a', { n: '1' }));
    api.noteReviews('hook', asked);
  },
  'a custom resource is shown with its defaults': async (api) => {
    await validate(api, () => allow(), rule(['CREATE'], ['widgets']));
    await api.given.create(widgets(api, '?fieldManager=one'), widget('a', { size: 1, unknown: 1 }));
    api.noteReviews('hook', asked);
  },
  'an update is shown with what was': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await validate(api, () => allow(), rule(['UPDATE'], ['widgets']));
    await api.given.patch(widgets(api, '/a'), 'merge', { spec: { size: 2 } });
    api.noteReviews('hook', asked);
  },
  'a deletion is shown with what was, and its options': async (api) => {
    await api.given.create('configmaps', configMap('a', { n: '1' }));
    await validate(api, () => allow(), {
      rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['DELETE'], resources: ['configmaps'] }],
    });
    await api.given.delete('configmaps/a', { propagationPolicy: 'Background', gracePeriodSeconds: 0 });
    api.noteReviews('hook', asked);
  },
  'every object of a deletion of many is asked for, and none by its name': async (api) => {
    for (const name of ['a', 'b']) await api.given.create(widgets(api), widget(name));
    await validate(
      api,
      ({ request: { oldObject } }) =>
        oldObject?.metadata.name === 'b' ? deny({ message: 'b stays' }) : allow(),
      rule(['DELETE'], ['widgets']),
    );
    await api.delete(widgets(api));
    await api.get(widgets(api), {
      show: ({ items }) => (items as readonly Loose[]).map(({ metadata }) => metadata.name),
    });
    api.noteReviews('hook', asked);
  },
  'an apply that creates is a creation': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['widgets']));
    await api.given.apply(widgets(api, '/a?fieldManager=one'), widget('a', { size: 1 }));
    await api.given.apply(widgets(api, '/a?fieldManager=one'), widget('a', { size: 2 }));
    api.noteReviews('hook', briefly);
  },
  'the removal of the last finalizer is an update': async (api) => {
    await api.given.create(widgets(api), widget('a', {}, { finalizers: ['example.com/hold'] }));
    await validate(api, () => allow(), rule(['*'], ['widgets']));
    await api.given.delete(widgets(api, '/a'));
    await api.given.patch(widgets(api, '/a'), 'merge', { metadata: { finalizers: null } });
    api.noteReviews('hook', briefly);
  },
  'a name that the server made is not yet there for mutating webhooks': async (api) => {
    await mutate(api, () => allow());
    await api.given.create('configmaps', { metadata: { generateName: 'made-' } });
    api.noteReviews('hook', asked);
  },
  'a name that the server made is shown to validating webhooks': async (api) => {
    await validate(api, () => allow());
    await api.given.create('configmaps', { metadata: { generateName: 'made-' } });
    api.noteReviews('hook', asked);
  },
  'a refusal is a refusal': async (api) => {
    await validate(api, () => deny());
    await api.create('configmaps', configMap('a'));
    await api.get('configmaps/a');
  },
  'a refusal says what the webhook says': async (api) => {
    await validate(api, () => deny({ message: 'not today' }));
    await api.create('configmaps', configMap('a'));
  },
  'a refusal has the reason of the webhook if there is no message': async (api) => {
    await validate(api, () => deny({ reason: 'Because' }));
    await api.create('configmaps', configMap('a'));
  },
  'code, reason and details of a refusal are passed on': async (api) => {
    const causes = [{ reason: 'FieldValueInvalid', message: 'too odd', field: 'data.n' }];
    await validate(api, () =>
      deny({
        status: 'Success',
        code: 422,
        reason: 'Invalid',
        message: 'too odd',
        details: { name: 'a', kind: 'ConfigMap', causes, retryAfterSeconds: 7 },
      }),
    );
    await api.create('configmaps', configMap('a'));
  },
  'a refusal cannot be a success': async (api) => {
    await validate(api, () => deny({ code: 200, message: 'all is well' }));
    await api.create('configmaps', configMap('a'));
  },
  'a deletion is refused': async (api) => {
    await api.given.create(widgets(api), widget('a'));
    await validate(api, () => deny({ code: 403, message: 'it stays' }), rule(['DELETE'], ['widgets']));
    await api.delete(widgets(api, '/a'));
    await api.get(widgets(api, '/a'), { show: ({ kind }) => kind });
  },
  'warnings reach the client': async (api) => {
    await validate(api, () => allow({ warnings: ['first', 'second "quoted"'] }));
    await api.create('configmaps', configMap('a'));
  },
  'warnings reach the client of a refusal, too': async (api) => {
    await validate(api, () => ({
      kind: 'response',
      response: { allowed: false, warnings: ['take care'], status: { message: 'no' } },
    }));
    await api.create('configmaps', configMap('a'));
  },
  'a patch changes what is stored': async (api) => {
    await mutate(api, () => patched({ op: 'add', path: '/data', value: { n: 'patched' } }));
    await api.create('configmaps', configMap('a'));
    await api.get('configmaps/a');
  },
  'a patch of a custom resource is judged and pruned': async (api) => {
    const size = (value: unknown) => [
      { op: 'add', path: '/spec/size', value },
      { op: 'add', path: '/spec/unknown', value: 1 },
    ];
    await mutate(
      api,
      ({ request }) => patched(...size(request.name === 'a' ? 2 : 101)),
      rule(['CREATE'], ['widgets']),
    );
    await api.create(widgets(api), widget('a', { size: 1 }));
    await api.create(widgets(api), widget('b', { size: 1 }));
  },
  'a patch that does not apply fails the request': {
    run: async (api) => {
      await mutate(api, () => patched({ op: 'remove', path: '/data/nothing' }));
      await api.create('configmaps', configMap('a'));
    },
    // The words are those of the library that applies it.
    normalise: (transcript) =>
      transcript.map((exchange) => ('status' in exchange ? exchange.status : exchange)),
  },
  'a patch without a type is an error': async (api) => {
    const patch = Buffer.from('[]').toString('base64');
    await mutate(api, () => allow({ patch }));
    await api.create('configmaps', configMap('a'));
  },
  'a patch that allows nothing is not applied': async (api) => {
    const patch = Buffer.from('[{"op":"add","path":"/data","value":{}}]').toString('base64');
    await mutate(api, () => ({
      kind: 'response',
      response: { allowed: false, patchType: 'JSONPatch', patch, status: { message: 'no' } },
    }));
    await api.create('configmaps', configMap('a'));
  },
  'a validating webhook may not patch': async (api) => {
    await validate(api, () => patched({ op: 'add', path: '/data', value: {} }));
    await api.create('configmaps', configMap('a'));
  },
  'what mutating webhooks add is managed by nobody': {
    keepManagedFields: true,
    run: async (api) => {
      const show = ({ data, metadata }: Loose) => [
        data,
        (metadata.managedFields as readonly Loose[]).map(({ manager, fieldsV1 }) => ({ manager, fieldsV1 })),
      ];
      await mutate(api, () => patched({ op: 'add', path: '/data/patched', value: 'yes' }), {
        rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['*'], resources: ['configmaps'] }],
      });
      await api.create('configmaps?fieldManager=one', configMap('a', { n: '1' }), { show });
      await api.patch(
        'configmaps/a?fieldManager=two',
        'merge',
        { data: { m: '2', patched: null } },
        { show },
      );
    },
  },
  'mutating webhooks go one after the other, by the names of configurations': async (api) => {
    const order: string[] = [];
    for (const path of ['first', 'second', 'third'])
      api.hooks.serve(path, ({ request: { object } }) => {
        order.push(`${path} saw ${Object.keys(object?.metadata.labels ?? {}).join(',')}`);
        return labelled(object, path);
      });
    await api.install({ kind: 'Mutating', name: 'b', webhooks: [api.hooks.entry('third')] });
    await api.install({
      kind: 'Mutating',
      name: 'a',
      webhooks: [api.hooks.entry('first'), api.hooks.entry('second')],
    });
    await api.create('configmaps', configMap('a'));
    api.note('order', order);
  },
  'validating webhooks see what mutating ones made': async (api) => {
    await mutate(api, addLabel('mutated'));
    api.hooks.serve('check', () => allow());
    await api.install({ kind: 'Validating', name: 'check', webhooks: [api.hooks.entry('check')] });
    await api.given.create('configmaps', configMap('a'));
    api.noteReviews('check', ({ request }) => request.object?.metadata.labels);
  },
  'a webhook that wants to is asked again when others changed something': async (api) => {
    api.hooks.serve('early', () => allow());
    api.hooks.serve('late', addLabel('late'));
    await api.install({
      kind: 'Mutating',
      webhooks: [api.hooks.entry('early', { reinvocationPolicy: 'IfNeeded' }), api.hooks.entry('late')],
    });
    await api.given.create('configmaps', configMap('a'));
    for (const path of ['early', 'late'])
      api.noteReviews(path, ({ request }) => request.object?.metadata.labels ?? 'none');
  },
  'a webhook is not asked again when nothing changed': async (api) => {
    api.hooks.serve('early', addLabel('early'));
    api.hooks.serve('late', () => allow());
    const again = { reinvocationPolicy: 'IfNeeded' };
    await api.install({
      kind: 'Mutating',
      webhooks: [api.hooks.entry('early', again), api.hooks.entry('late', again)],
    });
    await api.given.create('configmaps', configMap('a'));
    for (const path of ['early', 'late'])
      api.noteReviews(path, ({ request }) => request.object?.metadata.labels ?? 'none');
  },
  'validating webhooks are all asked, and one refusal is enough': async (api) => {
    api.hooks.serve('yes', () => allow());
    api.hooks.serve('no', () => deny({ message: 'no' }));
    await api.install({ kind: 'Validating', webhooks: [api.hooks.entry('yes'), api.hooks.entry('no')] });
    await api.create('configmaps', configMap('a'));
    api.noteReviews('yes', briefly);
  },
  'a dry run is said to be one': async (api) => {
    await validate(api, () => allow());
    await api.given.create('configmaps?dryRun=All', configMap('a'));
    api.noteReviews('hook', ({ request }) => ({ dryRun: request.dryRun, options: request.options }));
  },
  'a webhook that has no side effects in dry runs is asked in one': async (api) => {
    await validate(api, () => allow(), { sideEffects: 'NoneOnDryRun' });
    await api.create('configmaps?dryRun=All', configMap('a'), { show: ({ kind }) => kind });
    api.noteReviews('hook', briefly);
  },
  'who acts for another is not shown': async (api) => {
    await validate(api, () => allow());
    const bob = api.with({ 'impersonate-user': 'bob', 'impersonate-group': 'system:masters' });
    await bob.given.create('configmaps', configMap('a'));
    api.noteReviews('hook', ({ request }) => request.userInfo);
  },
  'annotations for the audit log get there': async (api) => {
    await validate(api, () => allow({ auditAnnotations: { 'looked-at': 'yes' } }));
    await api.given.create('configmaps', configMap('a'));
    const created = await api.audited(
      ({ verb, requestURI }) => verb === 'create' && !requestURI.includes('dryRun'),
    );
    const annotations = Object.entries(created.annotations ?? {});
    api.note(
      'annotations',
      annotations.filter(([key]) => key.includes('looked-at')),
    );
  },
});

export const webhookRules = group('webhook rules', {
  'operations choose': async (api) => {
    await validate(api, () => allow(), rule(['CREATE', 'DELETE'], ['widgets']));
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.given.patch(widgets(api, '/a'), 'merge', { spec: { size: 2 } });
    await api.given.delete(widgets(api, '/a'));
    api.noteReviews('hook', briefly);
  },
  'a star of operations stands for all of them': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['widgets']));
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.given.update(widgets(api, '/a'), (await api.given.get(widgets(api, '/a'))).object);
    await api.given.delete(widgets(api, '/a'));
    api.noteReviews('hook', briefly);
  },
  'a plain resource leaves subresources out': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['widgets']));
    await api.given.create(widgets(api), widget('a'));
    await api.given.patch(widgets(api, '/a/status'), 'merge', { status: { phase: 'Ready' } });
    api.noteReviews('hook', briefly);
  },
  'a subresource is chosen by its name': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['widgets/status']));
    await api.given.create(widgets(api), widget('a'));
    await api.given.patch(widgets(api, '/a/status'), 'merge', { status: { phase: 'Ready' } });
    api.noteReviews('hook', asked);
  },
  'a star with a subresource stands for that of all resources': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['*/status']));
    await api.given.create(widgets(api), widget('a'));
    await api.given.patch(widgets(api, '/a/status'), 'merge', { status: { phase: 'Ready' } });
    api.noteReviews('hook', briefly);
  },
  'a resource with a star stands for its subresources': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['widgets/*']));
    await api.given.create(widgets(api), widget('a'));
    await api.given.patch(widgets(api, '/a/status'), 'merge', { status: { phase: 'Ready' } });
    api.noteReviews('hook', briefly);
  },
  'a star leaves subresources out': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['*']));
    await api.given.create(widgets(api), widget('a'));
    await api.given.patch(widgets(api, '/a/status'), 'merge', { status: { phase: 'Ready' } });
    api.noteReviews('hook', briefly);
  },
  'two stars leave nothing out': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['*/*']));
    await api.given.create(widgets(api), widget('a'));
    await api.given.patch(widgets(api, '/a/status'), 'merge', { status: { phase: 'Ready' } });
    api.noteReviews('hook', briefly);
  },
  'a group that does not match is left out': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['*'], { apiGroups: ['other.example.com'] }));
    await api.given.create(widgets(api), widget('a'));
    api.noteReviews('hook', briefly);
  },
  'a star of groups stands for all of them, the core group too': async (api) => {
    await validate(api, () => allow(), rule(['CREATE'], ['*'], { apiGroups: ['*'] }));
    await api.given.create(widgets(api), widget('a'));
    await api.given.create('configmaps', configMap('a'));
    api.noteReviews('hook', briefly);
  },
  'an equivalent version is converted to what the rule says': async (api) => {
    await validate(api, () => allow(), rule(['CREATE'], ['widgets'], { apiVersions: ['v1beta1'] }));
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    api.noteReviews('hook', asked);
  },
  'an exact version is asked for, or nothing is': async (api) => {
    const exact = { ...rule(['CREATE'], ['widgets'], { apiVersions: ['v1beta1'] }), matchPolicy: 'Exact' };
    await validate(api, () => allow(), exact);
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    const old = { ...widget('b', { size: 1 }), apiVersion: 'conformance.example.com/v1beta1' };
    await api.given.create(widgets(api, '', 'v1beta1'), old);
    api.noteReviews('hook', briefly);
  },
  'a version that matches both ways is not converted': async (api) => {
    await validate(api, () => allow(), rule(['CREATE'], ['widgets'], { apiVersions: ['v1', 'v1beta1'] }));
    const old = { ...widget('b', { size: 1 }), apiVersion: 'conformance.example.com/v1beta1' };
    await api.given.create(widgets(api, '', 'v1beta1'), old);
    api.noteReviews('hook', briefly);
  },
  'a scope chooses': async (api) => {
    const own = { matchLabels: { of: api.id } };
    const scoped = (path: string, scope: string) =>
      api.hooks.entry(path, {
        ...rule(['CREATE'], ['widgets', 'gadgets'], { scope }),
        namespaceSelector: {},
        objectSelector: own,
      });
    for (const path of ['cluster', 'namespaced', 'any']) api.hooks.serve(path, () => allow());
    await api.install({
      kind: 'Validating',
      webhooks: [scoped('cluster', 'Cluster'), scoped('namespaced', 'Namespaced'), scoped('any', '*')],
    });
    const labels = { of: api.id };
    await api.given.create(widgets(api), widget('a', {}, { labels }));
    await api.given.create(gadgets(), gadget(`${api.id}-a`, {}, { labels }));
    for (const path of ['cluster', 'namespaced', 'any']) api.noteReviews(path, briefly);
  },
  'what has no namespace passes every namespaceSelector': async (api) => {
    await validate(api, () => allow(), {
      ...rule(['CREATE'], ['gadgets']),
      namespaceSelector: { matchLabels: { case: 'no-such-case' } },
      objectSelector: { matchLabels: { of: api.id } },
    });
    await api.given.create(gadgets(), gadget(`${api.id}-a`, {}, { labels: { of: api.id } }));
    api.noteReviews('hook', briefly);
  },
  'a namespaceSelector looks at the labels of the namespace': async (api) => {
    const other = `${api.id}-other`;
    await api.given.create('/api/v1/namespaces', { metadata: { name: other, labels: { case: 'other' } } });
    await validate(api, () => allow());
    await api.given.create(`/api/v1/namespaces/${other}/configmaps`, configMap('a'));
    await api.given.create('configmaps', configMap('a'));
    api.noteReviews('hook', briefly);
  },
  'a namespaceSelector looks at a namespace itself, as it will be': async (api) => {
    await validate(api, () => allow(), {
      rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['namespaces'] }],
      objectSelector: {},
    });
    const labels = { case: api.id };
    await api.given.create('/api/v1/namespaces', { metadata: { name: `${api.id}-in`, labels } });
    await api.given.create('/api/v1/namespaces', { metadata: { name: `${api.id}-out` } });
    api.noteReviews('hook', briefly);
  },
  'an objectSelector looks at what was and what will be': async (api) => {
    await validate(api, () => allow(), {
      rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['*'], resources: ['configmaps'] }],
      objectSelector: { matchExpressions: [{ key: 'guarded', operator: 'In', values: ['yes'] }] },
    });
    const guard = (guarded: string | null) =>
      api.given.patch('configmaps/a', 'merge', { metadata: { labels: { guarded } } });
    await api.given.create('configmaps', configMap('a'));
    await guard('yes');
    await guard(null);
    await guard('no');
    await api.given.delete('configmaps/a');
    api.noteReviews('hook', briefly);
  },
  'webhooks are not asked about webhook configurations': async (api) => {
    await validate(api, () => allow(), {
      rules: [
        {
          apiGroups: ['admissionregistration.k8s.io'],
          apiVersions: ['*'],
          operations: ['*'],
          resources: ['*'],
        },
      ],
      namespaceSelector: {},
      objectSelector: { matchLabels: { of: api.id } },
    });
    const collection = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations';
    await api.given.create(collection, { metadata: { name: `${api.id}-other`, labels: { of: api.id } } });
    await api.given.delete(`${collection}/${api.id}-other`);
    api.noteReviews('hook', briefly);
  },
  'a webhook that is removed is asked no more': async (api) => {
    await validate(api, () => deny({ message: 'no' }));
    await api.create('configmaps', configMap('a'));
    await api.hooks.clear(api.given);
    await api.eventually('the webhook is forgotten', () =>
      api.given.create('configmaps?dryRun=All', configMap('a')),
    );
    await api.create('configmaps', configMap('a'));
  },
  'matchConditions choose': {
    since: '1.30', // KEP-3716
    run: async (api) => {
      const matchConditions = [{ name: 'not-c', expression: "object.metadata.name != 'c'" }];
      await validate(api, () => allow(), { matchConditions });
      for (const name of ['a', 'c']) await api.given.create('configmaps', configMap(name));
      api.noteReviews('hook', briefly);
    },
    expected: [{ seen: [{ asked: 'CREATE configmaps v1  case a' }] }],
  },
});

const FAIL_AND_IGNORE: readonly (readonly [
  string,
  (api: Api) => Readonly<Record<string, unknown>>,
  Handler,
])[] = [
  ['cannot be reached', (api) => ({ clientConfig: nowhere(api) }), () => allow()],
  [
    'has no Service',
    () => ({ clientConfig: { service: { namespace: 'default', name: 'missing', path: '/x' } } }),
    () => allow(),
  ],
  ['answers garbage', () => ({}), () => ({ kind: 'raw', status: 200, text: 'garbage' })],
  ['answers 500', () => ({}), () => ({ kind: 'raw', status: 500, text: '{}' })],
  ['answers 404', () => ({}), () => ({ kind: 'raw', status: 404, text: '{}' })],
  ['answers for another request', () => ({}), () => allow({ uid: 'another' })],
  ['answers nothing', () => ({}), ({ apiVersion, kind }) => raw({ apiVersion, kind })],
  [
    'answers with another kind',
    () => ({}),
    ({ request: { uid } }) => raw({ apiVersion: 'v1', kind: 'Pod', response: { uid, allowed: true } }),
  ],
  [
    'answers in another version',
    () => ({}),
    ({ kind, request: { uid } }) =>
      raw({ apiVersion: 'admission.k8s.io/v1beta1', kind, response: { uid, allowed: true } }),
  ],
  ['takes too long', () => ({ timeoutSeconds: 1 }), () => ({ kind: 'slow', delayMs: 1_500 })],
  [
    'is not trusted',
    (api) => ({ clientConfig: { ...api.hooks.url('hook'), caBundle: undefined } }),
    () => allow(),
  ],
];

const raw = (body: object) => ({ kind: 'raw', status: 200, text: JSON.stringify(body) }) as const;

/** A port that nobody listens on. */
const nowhere = (api: Api): object => ({ ...api.hooks.url('hook'), url: 'https://localhost:1/nobody' });

/** Each failure twice: with the policy Fail and with Ignore. The words of TLS, HTTP and JSON libraries are left out. */
const failures = Object.fromEntries(
  FAIL_AND_IGNORE.flatMap(([what, changes, handler]) =>
    ['Fail', 'Ignore'].map((failurePolicy) => [
      `a webhook that ${what}: ${failurePolicy}`,
      {
        run: async (api: Api) => {
          await validate(api, handler, { ...changes(api), failurePolicy });
          await api.create('configmaps', configMap('a'));
        },
        normalise: (transcript: unknown) => shortened(transcript, what),
      },
    ]),
  ),
);

/** Failures that the API server words itself; of the others only whose failure it is. */
const WORDED = new Set(['answers for another request', 'takes too long', 'has no Service']);

function shortened(transcript: unknown, what: string): unknown {
  if (WORDED.has(what)) return transcript;
  return JSON.parse(
    JSON.stringify(transcript, (key, value: unknown) =>
      key === 'message' && typeof value === 'string'
        ? value.replace(/(failed calling webhook "[^"]+": ).*/s, '$1…')
        : value,
    ),
  );
}

export const webhookFailures = group('webhook failures', {
  ...failures,
  'a mutating webhook that fails and is ignored changes nothing': async (api) => {
    await mutate(api, () => ({ kind: 'raw', status: 500, text: '' }), { failurePolicy: 'Ignore' });
    await api.create('configmaps', configMap('a'));
  },
  'a refusal is no failure, and is not ignored': async (api) => {
    await validate(api, () => deny({ message: 'no' }), { failurePolicy: 'Ignore' });
    await api.create('configmaps', configMap('a'));
  },
  'a webhook is reached by its URL': async (api) => {
    api.hooks.serve('hook', () => allow({ warnings: ['reached'] }));
    await api.install({
      kind: 'Validating',
      webhooks: [api.hooks.entry('hook', { clientConfig: api.hooks.url('hook') })],
    });
    await api.create('configmaps', configMap('a'));
  },
});

/** The answer to a configuration that says this. */
const configured =
  (entry: (api: Api) => object, kind = 'validating') =>
  async (api: Api) => {
    await api.create(`/apis/admissionregistration.k8s.io/v1/${kind}webhookconfigurations?dryRun=All`, {
      metadata: { name: api.id },
      webhooks: [entry(api)].flat(),
    });
  };

const URL = { url: 'https://hooks.example.com/x' };

const plain = (changes: object = {}) => ({
  name: 'hook.example.com',
  clientConfig: URL,
  sideEffects: 'None',
  admissionReviewVersions: ['v1'],
  rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'] }],
  ...changes,
});

export const webhookConfigurations = group('webhook configurations', {
  'defaults of a validating one are filled in': configured(() => plain()),
  'defaults of a mutating one are filled in': configured(() => plain(), 'mutating'),
  'a Service has defaults': configured(() =>
    plain({ clientConfig: { service: { namespace: 'a', name: 'b' } } }),
  ),
  'side effects may not be unknown': configured(() => plain({ sideEffects: 'Unknown' })),
  'side effects are required': configured(() => plain({ sideEffects: undefined })),
  'a review version is required': configured(() => plain({ admissionReviewVersions: [] })),
  'a review version has to be one that the server knows': configured(() =>
    plain({ admissionReviewVersions: ['v9'] }),
  ),
  'a caBundle is base64': {
    run: configured(() => plain({ clientConfig: { ...URL, caBundle: 'not base64!' } })),
    normalise: upToColon,
  },
  'names differ': configured(() => [plain(), plain()]),
  'a name is qualified': configured(() => plain({ name: 'hook' })),
  'a client is a URL or a Service': configured(() => plain({ clientConfig: {} })),
  'a client is not a URL and a Service': configured(() =>
    plain({ clientConfig: { ...URL, service: { namespace: 'a', name: 'b' } } }),
  ),
  'a URL is https': configured(() => plain({ clientConfig: { url: 'http://hooks.example.com' } })),
  'a timeout is from 1 to 30 s': configured(() => plain({ timeoutSeconds: 31 })),
  'a failurePolicy has two values': configured(() => plain({ failurePolicy: 'Maybe' })),
  'a matchPolicy has two values': configured(() => plain({ matchPolicy: 'Nearly' })),
  'a rule names operations, groups, versions and resources': configured(() => plain({ rules: [{}] })),
  'a star of operations stands alone': configured(() =>
    plain({
      rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['*', 'CREATE'], resources: ['pods'] }],
    }),
  ),
  'an operation is one of four': configured(() =>
    plain({ rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['READ'], resources: ['pods'] }] }),
  ),
  'a selector has known operators': configured(() =>
    plain({ objectSelector: { matchExpressions: [{ key: 'a', operator: 'Like', values: ['b'] }] } }),
  ),
  'a reinvocationPolicy has two values': configured(
    () => plain({ reinvocationPolicy: 'Always' }),
    'mutating',
  ),
  'a matchCondition that does not compile is refused': {
    since: '1.30', // KEP-3716
    run: configured(() => plain({ matchConditions: [{ name: 'a', expression: 'object.' }] })),
    expected: [
      {
        status: 422,
        answer: {
          details: {
            causes: [{ field: 'webhooks[0].matchConditions[0].expression', reason: 'FieldValueInvalid' }],
          },
        },
      },
    ],
  },
});
