/** The requests to webhooks, and the effect of their answers. */
import type { Loose } from '../api.ts';
import { group } from '../case.ts';
import { configMap, widget, widgets } from '../fixtures.ts';
import { allow, deny, patched } from '../hook-server.ts';
import { addLabel, asked, briefly, labelled, mutate, rule, validate } from './webhook-helpers.ts';

export const webhooks = group('webhooks', {
  'a creation shows the new object': async (api) => {
    await validate(api, () => allow());
    await api.create('configmaps', configMap('a', { n: '1' }));
    api.noteReviews('hook', asked);
  },
  'a custom resource is shown with its defaults': async (api) => {
    await validate(api, () => allow(), rule(['CREATE'], ['widgets']));
    await api.given.create(widgets(api, '?fieldManager=one'), widget('a', { size: 1, unknown: 1 }));
    api.noteReviews('hook', asked);
  },
  'an update shows the old object': async (api) => {
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await validate(api, () => allow(), rule(['UPDATE'], ['widgets']));
    await api.given.patch(widgets(api, '/a'), 'merge', { spec: { size: 2 } });
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
  'a collection deletion calls webhooks for every object, without a name': async (api) => {
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
  'a generated name is not yet visible to mutating webhooks': async (api) => {
    await mutate(api, () => allow());
    await api.given.create('configmaps', { metadata: { generateName: 'made-', namespace: api.id } });
    api.noteReviews('hook', asked);
  },
  'a generated name is visible to validating webhooks': async (api) => {
    await validate(api, () => allow());
    await api.given.create('configmaps', { metadata: { generateName: 'made-' } });
    api.noteReviews('hook', asked);
  },
  'a review is not shown': {
    since: '1.37', // the gate ExcludeAdmissionWebhookVirtualResources
    run: async (api) => {
      const reviews = { apiGroups: ['*'], apiVersions: ['*'], resources: ['subjectaccessreviews'] };
      await validate(api, () => deny({ message: 'no reviews' }), {
        rules: [{ ...reviews, operations: ['CREATE'] }],
      });
      const nonResourceAttributes = { verb: 'get', path: '/' };
      await api.create(
        '/apis/authorization.k8s.io/v1/subjectaccessreviews',
        { spec: { user: 'alice', nonResourceAttributes } },
        { show: ({ kind }) => kind },
      );
    },
  },
  'a refusal rejects the request': async (api) => {
    await validate(api, () => deny());
    await api.create('configmaps', configMap('a'));
    await api.get('configmaps/a');
  },
  'a refusal has the message of the webhook': async (api) => {
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
  'a deletion can be denied': async (api) => {
    await api.given.create(widgets(api), widget('a'));
    await validate(api, () => deny({ code: 403, message: 'it stays' }), rule(['DELETE'], ['widgets']));
    await api.delete(widgets(api, '/a'));
    await api.get(widgets(api, '/a'), { show: ({ kind }) => kind });
  },
  'warnings reach the client': async (api) => {
    await validate(api, () => allow({ warnings: ['first', 'second "quoted"'] }));
    await api.create('configmaps', configMap('a'));
  },
  'warnings of a refusal reach the client': async (api) => {
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
  'a patch that does not apply fails the request': {
    run: async (api) => {
      await mutate(api, () => patched({ op: 'remove', path: '/data/nothing' }));
      await api.create('configmaps', configMap('a'));
    },
    // The message comes from the library that applies the patch.
    normalise: (transcript) =>
      transcript.map((exchange) => ('status' in exchange ? exchange.status : exchange)),
  },
  'a patch without a type is an error': async (api) => {
    const patch = Buffer.from('[]').toString('base64');
    await mutate(api, () => allow({ patch }));
    await api.create('configmaps', configMap('a'));
  },
  'a patch with a refusal is not applied': async (api) => {
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
  'fields that mutating webhooks add have no manager': {
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
  'validating webhooks see the changes of mutating webhooks': async (api) => {
    await mutate(api, addLabel('mutated'));
    api.hooks.serve('check', () => allow());
    await api.install({ kind: 'Validating', name: 'check', webhooks: [api.hooks.entry('check')] });
    await api.given.create('configmaps', configMap('a'));
    api.noteReviews('check', ({ request }) => request.object?.metadata.labels);
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
  'a webhook is not called again if nothing changed': async (api) => {
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
  'all validating webhooks are called, and one refusal is enough': async (api) => {
    api.hooks.serve('yes', () => allow());
    api.hooks.serve('no', () => deny({ message: 'no' }));
    await api.install({ kind: 'Validating', webhooks: [api.hooks.entry('yes'), api.hooks.entry('no')] });
    await api.create('configmaps', configMap('a'));
    api.noteReviews('yes', briefly);
  },
  'a dry run is marked as such': async (api) => {
    await validate(api, () => allow());
    await api.given.create('configmaps?dryRun=All', configMap('a'));
    api.noteReviews('hook', ({ request }) => ({ dryRun: request.dryRun, options: request.options }));
  },
  'a webhook without side effects on dry run is called in a dry run': async (api) => {
    await validate(api, () => allow(), { sideEffects: 'NoneOnDryRun' });
    await api.create('configmaps?dryRun=All', configMap('a'), { show: ({ kind }) => kind });
    api.noteReviews('hook', briefly);
  },
  'the impersonating user is not shown': async (api) => {
    await validate(api, () => allow());
    const bob = api.with({ 'impersonate-user': 'bob', 'impersonate-group': 'system:masters' });
    await bob.given.create('configmaps', configMap('a'));
    api.noteReviews('hook', ({ request }) => request.userInfo);
  },
  'audit annotations reach the audit log': async (api) => {
    await validate(api, () => allow({ auditAnnotations: { 'looked-at': 'yes' } }));
    await api.given.create('configmaps', configMap('a'));
    const created = await api.audited(
      ({ verb, requestURI }) => verb === 'create' && /\/configmaps(?!.*dryRun)/.test(requestURI),
    );
    const annotations = Object.entries(created.annotations ?? {});
    api.note(
      'annotations',
      annotations.filter(([key]) => key.includes('looked-at')),
    );
  },
});
