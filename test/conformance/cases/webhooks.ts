/** Webhooks: their configurations, which of them are called, with what, and the effect of their answers. */
import type { Api, Loose } from '../api.ts';
import { configMap, group, widget, widgets } from '../fixtures.ts';
import { allow, deny, patched, type Handler, type Reply, type Review } from '../hook-server.ts';

/** Installs a webhook with this answer; `changes` apply to its entry. */
const installing =
  (kind: 'Validating' | 'Mutating') =>
  async (api: Api, handler: Handler, changes: Readonly<Record<string, unknown>> = {}): Promise<void> => {
    api.hooks.serve('hook', handler);
    await api.install({ kind, webhooks: [api.hooks.entry('hook', changes)] });
  };
const validate = installing('Validating');
const mutate = installing('Mutating');

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

const asked = ({ apiVersion, kind, request }: Review): unknown => {
  const { uid, userInfo, ...rest } = request as Review['request'] & {
    readonly userInfo: { readonly username: string };
  };
  return { apiVersion, kind, hasUid: uid !== '', ...rest, userInfo: { username: userInfo.username } };
};

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
  'a creation shows the new object': async (api) => {
    await validate(api, () => allow());
    await api.create('configmaps', configMap('a', { n: '1' }));
    api.noteReviews('hook', asked);
  },
  'a deletion shows the old object and its options': async (api) => {
    await api.given.create('configmaps', configMap('a', { n: '1' }));
    await validate(api, () => allow(), {
      rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['DELETE'], resources: ['configmaps'] }],
    });
    await api.given.delete('configmaps/a', { propagationPolicy: 'Background', gracePeriodSeconds: 0 });
    api.noteReviews('hook', asked);
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
  'warnings reach the client': async (api) => {
    await validate(api, () => allow({ warnings: ['first', 'second "quoted"'] }));
    await api.create('configmaps', configMap('a'));
  },
  'a patched custom resource is validated and pruned': async (api) => {
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
  'a patch of a validating webhook is refused': async (api) => {
    await validate(api, () => patched({ op: 'add', path: '/data', value: {} }));
    await api.create('configmaps', configMap('a'));
  },
  'mutating webhooks run in sequence, by configuration name': async (api) => {
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
  'a webhook with a reinvocation policy is called again after a change by another webhook': async (api) => {
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
});

export const webhookRules = group('webhook rules', {
  'a rule matches by operation': async (api) => {
    await validate(api, () => allow(), rule(['CREATE', 'DELETE'], ['widgets']));
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.given.patch(widgets(api, '/a'), 'merge', { spec: { size: 2 } });
    await api.given.delete(widgets(api, '/a'));
    api.noteReviews('hook', briefly);
  },
  'a plain resource does not match subresources': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['widgets']));
    await api.given.create(widgets(api), widget('a'));
    await api.given.patch(widgets(api, '/a/status'), 'merge', { status: { phase: 'Ready' } });
    api.noteReviews('hook', briefly);
  },
  'a star with a subresource matches it for all resources': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['*/status']));
    await api.given.create(widgets(api), widget('a'));
    await api.given.patch(widgets(api, '/a/status'), 'merge', { status: { phase: 'Ready' } });
    api.noteReviews('hook', briefly);
  },
  'an equivalent version is converted to the version of the rule': async (api) => {
    await validate(api, () => allow(), rule(['CREATE'], ['widgets'], { apiVersions: ['v1beta1'] }));
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    api.noteReviews('hook', asked);
  },
  'with matchPolicy Exact only the version of the rule matches': async (api) => {
    const exact = { ...rule(['CREATE'], ['widgets'], { apiVersions: ['v1beta1'] }), matchPolicy: 'Exact' };
    await validate(api, () => allow(), exact);
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    const old = { ...widget('b', { size: 1 }), apiVersion: 'conformance.example.com/v1beta1' };
    await api.given.create(widgets(api, '', 'v1beta1'), old);
    api.noteReviews('hook', briefly);
  },
  'an objectSelector checks the old and the new state': async (api) => {
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
  'matchConditions choose': async (api) => {
    const matchConditions = [{ name: 'not-c', expression: "object.metadata.name != 'c'" }];
    await validate(api, () => allow(), { matchConditions });
    for (const name of ['a', 'c']) await api.given.create('configmaps', configMap(name));
    api.noteReviews('hook', briefly);
  },
});

export const webhookFailures = group('webhook failures', {
  'a refusal is not a failure and is not ignored': async (api) => {
    await validate(api, () => deny({ message: 'no' }), { failurePolicy: 'Ignore' });
    await api.create('configmaps', configMap('a'));
  },
});
