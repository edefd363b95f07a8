import type { Loose } from '../api.ts';
import { group } from '../case.ts';
import { configMap, widget, widgets } from '../fixtures.ts';
import { upToColon } from '../wording.ts';

interface ListedResource {
  readonly name: string;
}

/** The resources of a group that the sandbox must have, with the fields that must match. */
const only =
  (...names: readonly string[]) =>
  ({ resources, ...rest }: Loose) => ({
    ...rest,
    resources: (resources as readonly ListedResource[])
      .filter(({ name }) => names.includes(name))
      .toSorted((a, b) => a.name.localeCompare(b.name)), // the order depends on when the server discovered them
  });

export const protocol = group('protocol', {
  'the core group lists its resources': async (api) => {
    await api.get('/api/v1', {
      show: only('configmaps', 'secrets', 'namespaces', 'namespaces/status', 'events', 'serviceaccounts'),
    });
  },
  'the group of custom resources lists them': async (api) => {
    await api.get('/apis/conformance.example.com/v1', { show: only('gadgets', 'widgets', 'widgets/status') });
  },
  'the group of custom resources lists its versions': async (api) => {
    await api.get('/apis/conformance.example.com');
  },
  'groups are listed': async (api) => {
    const wanted = ['conformance.example.com', 'coordination.k8s.io', 'rbac.authorization.k8s.io'];
    await api.get('/apis', {
      show: ({ groups, ...rest }) => ({
        ...rest,
        groups: (groups as readonly ListedResource[])
          .filter(({ name }) => wanted.includes(name))
          // Beta versions come and go between releases.
          .map(({ name, ...more }) => ({ name, preferred: (more as Loose).preferredVersion }))
          .toSorted((a, b) => a.name.localeCompare(b.name)),
      }),
    });
  },
  'webhook configurations and RBAC are listed': async (api) => {
    await api.get('/apis/admissionregistration.k8s.io/v1', {
      show: only('mutatingwebhookconfigurations', 'validatingwebhookconfigurations'),
    });
    await api.get('/apis/rbac.authorization.k8s.io/v1');
    await api.get('/apis/coordination.k8s.io/v1', { show: only('leases') });
    await api.get('/apis/apiextensions.k8s.io/v1');
    await api.get('/apis/authorization.k8s.io/v1');
  },
  'the core group has one version': async (api) => {
    await api.get('/api', { show: ({ kind, versions }) => ({ kind, versions }) });
  },
  'the server reports its health': async (api) => {
    for (const path of ['/healthz', '/livez', '/readyz']) await api.get(path);
  },
  'an unknown path is not found': async (api) => {
    await api.get('/apis/nowhere.example.com');
    await api.get('/apis/conformance.example.com/v9');
    await api.get('/api/v9/configmaps');
  },
  'a method that a path does not have is not allowed': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.send('PUT', 'configmaps', { body: configMap('a') });
    await api.send('PATCH', 'configmaps', {
      body: {},
      headers: { 'content-type': 'application/merge-patch+json' },
    });
    await api.send('POST', 'configmaps/a', { body: configMap('a') });
    await api.send('PUT', widgets(api), { body: widget('a') });
  },
  'a method that no path has is not allowed': async (api) => {
    await api.send('PROPFIND', 'configmaps');
  },
  'a media type that the server does not write is not acceptable': {
    run: async (api) => {
      await api.given.create('configmaps', configMap('a'));
      await api.get('configmaps/a', { headers: { accept: 'text/csv' } });
      await api.get(widgets(api), { headers: { accept: 'text/csv' } });
    },
    normalise: upToColon, // the rest lists the media types that it writes
  },
  '*/* accepts any media type': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.get('configmaps/a', { headers: { accept: '*/*' } });
  },
  'custom resources are JSON for clients that prefer protobuf': async (api) => {
    const accept = 'application/vnd.kubernetes.protobuf, application/json';
    await api.get(widgets(api), { headers: { accept }, show: ({ kind }) => kind });
  },
  'YAML is returned on request': async (api) => {
    await api.get('configmaps/missing', { headers: { accept: 'application/yaml' } });
  },
  'a long integer is exact in YAML': async (api) => {
    const long = '{"long":9007199254740993}';
    const body = JSON.stringify(widget('a', { anything: 'LONG' })).replace('"LONG"', long);
    await api.given.create(widgets(api), body);
    const { body: yaml } = await api.given.get(widgets(api, '/a'), {
      headers: { accept: 'application/yaml' },
    });
    api.note('the integer', /long: \d+/.exec(String(yaml))?.[0]);
  },
  'a limit of 0 is no limit': async (api) => {
    for (const name of ['a', 'b']) await api.given.create('configmaps', configMap(name));
    await api.get('configmaps?limit=0', { show: ({ items }) => (items as readonly unknown[]).length });
  },
  'a selector without matches gives an empty list': async (api) => {
    await api.given.create('configmaps', configMap('a'));
    await api.get('configmaps?labelSelector=a%3Db,a%3Dc', { show: ({ items }) => items });
  },
  'pretty-printed answers have the same content': async (api) => {
    await api.get('configmaps/missing?pretty=true');
  },
});

export const fieldValidation = group('field validation', {
  'unknown fields are warned of': async (api) => {
    const answer = await api.create(
      widgets(api, '?fieldValidation=Warn'),
      widget('a', { size: 1, unknown: 1 }),
    );
    api.note('warnings', answer.warnings);
  },
  'unknown fields are refused when asked to be strict': async (api) => {
    await api.create(widgets(api, '?fieldValidation=Strict'), widget('a', { size: 1, unknown: 1 }));
    await api.create('configmaps?fieldValidation=Strict', { ...configMap('a'), unknown: 1 });
  },
  'unknown fields are ignored when asked to': async (api) => {
    const answer = await api.create(
      widgets(api, '?fieldValidation=Ignore'),
      widget('a', { size: 1, unknown: 1 }),
    );
    api.note('warnings', answer.warnings);
  },
  'fieldValidation has three values': async (api) => {
    await api.create('configmaps?fieldValidation=Loose', configMap('a'));
  },
});
