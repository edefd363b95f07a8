import type { Api, Loose } from '../api.ts';
import { group } from '../case.ts';
import { CRDS, conditions, crd, established, installCrd, thing, things, thingsCrd } from '../fixtures.ts';

/** A CRD with one version that has this schema. */
const withSchema = (api: Api, openAPIV3Schema: object) => crd(api, {}, { schema: { openAPIV3Schema } });

/** The answer to the creation of an invalid CRD. */
const refused = (definition: (api: Api) => object) => async (api: Api) => {
  await api.create(CRDS, definition(api));
};

export const customResourceDefinitions = group('custom resource definitions', {
  'a CRD is established and serves its resources': async (api) => {
    await installCrd(api);
    await api.get(thingsCrd(api), { show: conditions });
    await api.get(thingsCrd(api), {
      show: ({ spec, status }) => ({
        spec,
        acceptedNames: (status as Loose).acceptedNames,
        storedVersions: (status as Loose).storedVersions,
      }),
    });
    await api.create(things(api), thing(api, 'a', { size: 1 }));
    await api.get(things(api));
  },
  'a CRD is found by discovery': async (api) => {
    await installCrd(api);
    await api.get(`/apis/${api.id}.example.com/v1`);
    await api.until(`/apis/${api.id}.example.com`, ({ status }) => status === 200);
    await api.get(`/apis/${api.id}.example.com`);
  },
  'a deleted CRD deletes its objects': async (api) => {
    await installCrd(api);
    await api.given.create(things(api), thing(api, 'a'));
    await api.delete(thingsCrd(api), undefined, { show: ({ kind }) => kind });
    await api.until(thingsCrd(api), ({ status }) => status === 404);
    await api.until(things(api), ({ status }) => status === 404);
    await api.get(things(api));
    await installCrd(api);
    await api.get(things(api), { show: ({ items }) => items });
  },
  'names that are taken are not accepted': async (api) => {
    await installCrd(api);
    const { spec, ...rest } = crd(api);
    const names = { plural: 'others', singular: 'other', kind: 'Thing', listKind: 'ThingList' };
    const other = { ...rest, metadata: { name: `others.${spec.group}` }, spec: { ...spec, names } };
    await api.given.create(CRDS, other);
    const path = `${CRDS}/others.${spec.group}`;
    await api.until(path, ({ object }) => conditions(object).length > 0);
    await api.get(path, { show: conditions });
    await api.get(`/apis/${spec.group}/v1/namespaces/${api.id}/others`);
  },
  'the name must be the plural followed by the group': refused((api) => ({
    ...crd(api),
    metadata: { name: 'things' },
  })),
  'a schema is required': refused((api) => crd(api, {}, { schema: undefined })),
  'every part of a schema needs a type': refused((api) =>
    withSchema(api, { type: 'object', properties: { spec: { properties: { a: { type: 'string' } } } } }),
  ),
  'the root of a schema is an object': refused((api) => withSchema(api, { type: 'string' })),
  'a default has to be valid': refused((api) =>
    withSchema(api, {
      type: 'object',
      properties: { spec: { type: 'object', properties: { a: { type: 'integer', default: 'x' } } } },
    }),
  ),
  'preserveUnknownFields must be false': refused((api) => crd(api, { preserveUnknownFields: true })),
  'one version must be the storage version': refused((api) => crd(api, {}, { storage: false })),
  'only one version may be the storage version': {
    run: refused((api) => {
      const { spec } = crd(api);
      return crd(api, { versions: [...spec.versions, { ...spec.versions[0], name: 'v2' }] });
    }),
  },
  'a scope is Namespaced or Cluster': refused((api) => crd(api, { scope: 'Global' })),
  'version names must be unique': refused((api) => {
    const { spec } = crd(api);
    return crd(api, { versions: [...spec.versions, { ...spec.versions[0], storage: false }] });
  }),
  'conversion by webhook needs a client': refused((api) => crd(api, { conversion: { strategy: 'Webhook' } })),
  'a scope cannot be changed': async (api) => {
    await installCrd(api);
    await api.patch(thingsCrd(api), 'merge', { spec: { scope: 'Cluster' } });
  },
  'a stored version cannot be dropped': async (api) => {
    await installCrd(api);
    const { spec } = crd(api);
    await api.patch(thingsCrd(api), 'merge', { spec: { versions: [{ ...spec.versions[0], name: 'v2' }] } });
  },
  'a version that is no longer served is not found': async (api) => {
    const { spec } = crd(api);
    const versions = [{ ...spec.versions[0], name: 'v1beta1', storage: false }, ...spec.versions];
    await installCrd(api, crd(api, { versions }));
    await api.until(things(api, '', 'v1beta1'), ({ status }) => status === 200);
    await api.given.patch(thingsCrd(api), 'json', [
      { op: 'replace', path: '/spec/versions/0/served', value: false },
    ]);
    await api.until(things(api, '', 'v1beta1'), ({ status }) => status === 404);
    await api.get(things(api, '', 'v1beta1'));
  },
  'objects change their apiVersion between versions, and nothing else': async (api) => {
    const { spec } = crd(api);
    const versions = [...spec.versions, { ...spec.versions[0], name: 'v2', storage: false }];
    await installCrd(api, crd(api, { versions }));
    await api.until(things(api, '', 'v2'), ({ status }) => status === 200);
    await api.create(things(api, '', 'v2'), thing(api, 'a', { size: 1 }, 'v2'));
    await api.get(things(api, '/a'));
  },
  'a new schema prunes fields that the old schema allowed': async (api) => {
    await installCrd(api);
    await api.given.create(things(api), thing(api, 'a', { size: 1 }));
    await api.given.patch(thingsCrd(api), 'json', [
      { op: 'remove', path: '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size' },
    ]);
    await api.until(things(api, '/a'), ({ object }) => (object.spec as Loose).size === undefined);
    await api.get(things(api, '/a'), { show: ({ spec }) => spec });
  },
  'a new default takes effect immediately': async (api) => {
    await installCrd(api);
    await api.given.create(things(api), thing(api, 'a'));
    await api.given.patch(thingsCrd(api), 'json', [
      {
        op: 'add',
        path: '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/default',
        value: 7,
      },
    ]);
    await api.until(things(api, '/a'), ({ object }) => (object.spec as Loose).size === 7);
    await api.get(things(api, '/a'), { show: ({ spec }) => spec });
  },
  'scale is served if the CRD declares it': async (api) => {
    const scale = { specReplicasPath: '.spec.size', statusReplicasPath: '.status.size' };
    await installCrd(api, crd(api, {}, { subresources: { scale } }));
    await api.given.create(things(api), thing(api, 'a', { size: 2 }));
    await api.get(things(api, '/a/scale'));
  },
  'the status of a CRD cannot be forged': async (api) => {
    const forged = {
      ...crd(api),
      status: { acceptedNames: { plural: 'x', kind: 'X' }, conditions: [], storedVersions: ['v9'] },
    };
    await api.given.create(CRDS, forged);
    await established(api);
    await api.get(thingsCrd(api), { show: ({ status }) => (status as Loose).storedVersions });
  },
  'a CRD may need approval to be in a protected group': refused((api) => {
    const group = `${api.id}.k8s.io`;
    return { ...crd(api, { group }), metadata: { name: `things.${group}` } };
  }),
  'ignored formats and sets of objects cause warnings, but not again on update': {
    since: '1.37', // getNonScalarListTypeSetWarnings; warnings of formats exist since 1.35
    run: async (api) => {
      const item = {
        type: 'object',
        'x-kubernetes-map-type': 'atomic',
        properties: { n: { type: 'integer', format: 'uint8' } },
      };
      const spec = {
        type: 'object',
        properties: {
          set: { type: 'array', items: item, 'x-kubernetes-list-type': 'set' },
          port: { type: 'integer', format: 'int32' },
          color: { type: 'string', format: 'color' },
          ratio: { type: 'number', format: 'int64' },
        },
      };
      await api.create(CRDS, withSchema(api, { type: 'object', properties: { spec } }), { show: () => '' });
      await api.patch(
        thingsCrd(api),
        'merge',
        { spec: { names: { shortNames: ['tg'] } } },
        { show: () => '' },
      );
    },
    normalise: (transcript) =>
      transcript.map((exchange) =>
        'status' in exchange && 'answer' in exchange
          ? [exchange.status, exchange.headers?.warning?.toSorted() ?? []]
          : exchange,
      ),
  },
  'a deleted CRD takes no objects, also after its objects are gone': {
    since: '1.37', // customresource_handler.go looks at the deletionTimestamp
    run: async (api) => {
      const definition = crd(api);
      await installCrd(api, {
        ...definition,
        metadata: { ...definition.metadata, finalizers: ['example.com/hold'] },
      });
      await api.given.delete(thingsCrd(api));
      await api.until(thingsCrd(api), ({ object }) =>
        conditions(object).some(({ reason }) => reason === 'InstanceDeletionCompleted'),
      );
      await api.create(things(api), thing(api, 'a'));
      await api.given.patch(thingsCrd(api), 'merge', { metadata: { finalizers: null } });
    },
  },
  'objects are converted by a webhook': async (api) => {
    api.hooks.serve('convert', ({ request }) => ({
      kind: 'response',
      response: {
        result: { status: 'Success' },
        convertedObjects: (request.objects as readonly Loose[]).map((object) => ({
          ...object,
          apiVersion: request.desiredAPIVersion,
          spec: { size: Number((object.spec as Loose).size) * 10 },
        })),
      },
    }));
    await installCrd(api, converting(api));
    await api.until(things(api, '', 'v2'), ({ status }) => status === 200);
    await api.given.create(things(api), thing(api, 'a', { size: 1 }));
    await api.get(things(api, '/a', 'v2'));
    await api.get(things(api), { show: ({ items }) => items });
    const [review] = api.hooks.reviewsAt('convert');
    api.note('the first review', {
      kind: review?.kind,
      apiVersion: review?.apiVersion,
      request: { ...review?.request, uid: undefined },
    });
  },
  'a conversion that fails is a failure of the request': async (api) => {
    api.hooks.serve('convert', () => ({
      kind: 'response',
      response: { result: { status: 'Failure', message: 'cannot be converted' } },
    }));
    await installCrd(api, converting(api));
    await api.until(things(api, '', 'v2'), ({ status }) => status === 200);
    await api.given.create(things(api), thing(api, 'a', { size: 1 }));
    await api.get(things(api, '/a', 'v2'));
    await api.get(things(api, '', 'v2'));
  },
  'a conversion must not change metadata': async (api) => {
    api.hooks.serve('convert', ({ request }) => ({
      kind: 'response',
      response: {
        result: { status: 'Success' },
        convertedObjects: (request.objects as readonly Loose[]).map((object) => ({
          ...object,
          apiVersion: request.desiredAPIVersion,
          metadata: { ...object.metadata, name: 'other' },
        })),
      },
    }));
    await installCrd(api, converting(api));
    await api.until(things(api, '', 'v2'), ({ status }) => status === 200);
    await api.given.create(things(api), thing(api, 'a', { size: 1 }));
    await api.get(things(api, '/a', 'v2'));
  },
});

/** Two versions that a webhook converts. */
function converting(api: Api): object {
  const { spec } = crd(api);
  const versions = [...spec.versions, { ...spec.versions[0], name: 'v2', storage: false }];
  const webhook = { conversionReviewVersions: ['v1'], clientConfig: api.hooks.service('convert') };
  return crd(api, { versions, conversion: { strategy: 'Webhook', webhook } });
}
