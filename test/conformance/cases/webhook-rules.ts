/** Which webhooks are called. */
import { group } from '../case.ts';
import { configMap, gadget, gadgets, widget, widgets } from '../fixtures.ts';
import { allow, deny } from '../hook-server.ts';
import { asked, briefly, rule, validate } from './webhook-helpers.ts';

export const webhookRules = group('webhook rules', {
  'a rule matches by operation': async (api) => {
    await validate(api, () => allow(), rule(['CREATE', 'DELETE'], ['widgets']));
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.given.patch(widgets(api, '/a'), 'merge', { spec: { size: 2 } });
    await api.given.delete(widgets(api, '/a'));
    api.noteReviews('hook', briefly);
  },
  'a star matches all operations': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['widgets']));
    await api.given.create(widgets(api), widget('a', { size: 1 }));
    await api.given.update(widgets(api, '/a'), (await api.given.get(widgets(api, '/a'))).object);
    await api.given.delete(widgets(api, '/a'));
    api.noteReviews('hook', briefly);
  },
  'a plain resource does not match subresources': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['widgets']));
    await api.given.create(widgets(api), widget('a'));
    await api.given.patch(widgets(api, '/a/status'), 'merge', { status: { phase: 'Ready' } });
    api.noteReviews('hook', briefly);
  },
  'a subresource is matched by its name': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['widgets/status']));
    await api.given.create(widgets(api), widget('a'));
    await api.given.patch(widgets(api, '/a/status'), 'merge', { status: { phase: 'Ready' } });
    api.noteReviews('hook', asked);
  },
  'a star with a subresource matches it for all resources': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['*/status']));
    await api.given.create(widgets(api), widget('a'));
    await api.given.patch(widgets(api, '/a/status'), 'merge', { status: { phase: 'Ready' } });
    api.noteReviews('hook', briefly);
  },
  'a resource with a star matches its subresources': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['widgets/*']));
    await api.given.create(widgets(api), widget('a'));
    await api.given.patch(widgets(api, '/a/status'), 'merge', { status: { phase: 'Ready' } });
    api.noteReviews('hook', briefly);
  },
  'a star does not match subresources': async (api) => {
    await validate(api, () => allow(), rule(['*'], ['*']));
    await api.given.create(widgets(api), widget('a'));
    await api.given.patch(widgets(api, '/a/status'), 'merge', { status: { phase: 'Ready' } });
    api.noteReviews('hook', briefly);
  },
  'two stars match everything': async (api) => {
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
  'a star matches all groups, including the core group': async (api) => {
    await validate(api, () => allow(), rule(['CREATE'], ['*'], { apiGroups: ['*'] }));
    await api.given.create(widgets(api), widget('a'));
    await api.given.create('configmaps', configMap('a'));
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
  'a version that matches both ways is not converted': async (api) => {
    await validate(api, () => allow(), rule(['CREATE'], ['widgets'], { apiVersions: ['v1', 'v1beta1'] }));
    const old = { ...widget('b', { size: 1 }), apiVersion: 'conformance.example.com/v1beta1' };
    await api.given.create(widgets(api, '', 'v1beta1'), old);
    api.noteReviews('hook', briefly);
  },
  'a rule matches by scope': async (api) => {
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
  'cluster-scoped objects match every namespaceSelector': async (api) => {
    await validate(api, () => allow(), {
      ...rule(['CREATE'], ['gadgets']),
      namespaceSelector: { matchLabels: { case: 'no-such-case' } },
      objectSelector: { matchLabels: { of: api.id } },
    });
    await api.given.create(gadgets(), gadget(`${api.id}-a`, {}, { labels: { of: api.id } }));
    api.noteReviews('hook', briefly);
  },
  'a namespaceSelector checks the labels of the namespace': async (api) => {
    const other = `${api.id}-other`;
    await api.given.create('/api/v1/namespaces', { metadata: { name: other, labels: { case: 'other' } } });
    await validate(api, () => allow());
    await api.given.create(`/api/v1/namespaces/${other}/configmaps`, configMap('a'));
    await api.given.create('configmaps', configMap('a'));
    api.noteReviews('hook', briefly);
  },
  'a namespaceSelector checks the new state of a Namespace': async (api) => {
    await validate(api, () => allow(), {
      rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['namespaces'] }],
      objectSelector: {},
    });
    const labels = { case: api.id };
    await api.given.create('/api/v1/namespaces', { metadata: { name: `${api.id}-in`, labels } });
    await api.given.create('/api/v1/namespaces', { metadata: { name: `${api.id}-out` } });
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
  'webhooks are not called for webhook configurations': async (api) => {
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
  'a removed webhook is no longer called': async (api) => {
    await validate(api, () => deny({ message: 'no' }));
    await api.create('configmaps', configMap('a'));
    await api.hooks.clear(api.given);
    await api.eventually('the webhook is forgotten', () =>
      api.given.create('configmaps?dryRun=All', configMap('a')),
    );
    await api.create('configmaps', configMap('a'));
  },
  'matchConditions choose': async (api) => {
    const matchConditions = [{ name: 'not-c', expression: "object.metadata.name != 'c'" }];
    await validate(api, () => allow(), { matchConditions });
    for (const name of ['a', 'c']) await api.given.create('configmaps', configMap(name));
    api.noteReviews('hook', briefly);
  },
});
