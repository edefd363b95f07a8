/** Schemas of custom resources, and the validation of CRDs. */
import { versionOf, withSpec } from '../../support/definitions.ts';
import type { Api, Loose } from '../api.ts';
import {
  conditions,
  configMap,
  crd,
  CRDS,
  group,
  installCrd,
  thing,
  things,
  thingsCrd,
  widget,
  widgets,
} from '../fixtures.ts';

const spec = ({ spec }: Loose) => spec;

const judged = (value: object) => (api: Api) => api.create(widgets(api), widget('a', value), { show: spec });

const SPEC_SCHEMA = '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties';

const withSchema = (api: Api, openAPIV3Schema: object) => crd(api, {}, { schema: { openAPIV3Schema } });

const refused = (definition: (api: Api) => object) => (api: Api) => api.create(CRDS, definition(api));

export const customResources = group('custom resources', {
  'a fault that was there before the schema forbade it may stay': async (api) => {
    await installCrd(api);
    await api.given.create(things(api), thing(api, 'a', { size: 200 }));
    await api.given.patch(thingsCrd(api), 'json', [
      { op: 'add', path: `${SPEC_SCHEMA}/size/maximum`, value: 100 },
      { op: 'add', path: `${SPEC_SCHEMA}/more`, value: { type: 'string', default: 'known' } },
    ]);
    await api.until(things(api, '/a'), ({ object }) => (object.spec as Loose).more === 'known');
    await api.patch(things(api, '/a'), 'merge', { spec: { more: 'x' } });
    await api.patch(things(api, '/a'), 'merge', { spec: { size: 201 } });
  },
  'unknown fields are pruned': judged({
    size: 1,
    unknown: 'x',
    owner: { name: 'a', unknown: 1 },
  }),
  'preserved unknown fields are not pruned': judged({ anything: { goes: { here: [1, 'two', null] } } }),
  'defaults are filled in': judged({}),
  'defaults of items are filled in': judged({ ports: [{ name: 'http', port: 80 }] }),
  'null for a field that is not nullable becomes the default': judged({ tier: null }),
  'null stays if the field is nullable': judged({ maybe: null }),
  'null elsewhere is dropped': judged({ size: null }),
  'a number above the maximum is rejected': judged({ size: 101 }),
  'a fraction is not an integer': judged({ size: 1.5 }),
  'a string is not a number': judged({ size: '1' }),
  'a list is not an object': judged({ owner: [] }),
  'a value outside the enumeration is rejected': judged({ tier: 'bronze' }),
  'a string that does not match the pattern is rejected': judged({ code: 'ABC' }),
  'a required field is required': judged({ owner: {} }),
  'map values are validated': judged({ notes: { a: 'b', c: 1 } }),
  'values in a set must be unique': judged({ tags: ['a', 'a'] }),
  'an embedded resource needs apiVersion and kind': judged({ template: { metadata: { name: 'a' } } }),
});

export const fieldValidation = group('field validation', {
  'unknown fields are refused when asked to be strict': async (api) => {
    await api.create(widgets(api, '?fieldValidation=Strict'), widget('a', { size: 1, unknown: 1 }));
    await api.create('configmaps?fieldValidation=Strict', { ...configMap('a'), unknown: 1 });
  },
});

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
  'the name must be the plural followed by the group': refused((api) => ({
    ...crd(api),
    metadata: { name: 'things' },
  })),
  'every part of a schema needs a type': refused((api) =>
    withSchema(api, { type: 'object', properties: { spec: { properties: { a: { type: 'string' } } } } }),
  ),
  'a default has to be valid': refused((api) =>
    withSchema(api, {
      type: 'object',
      properties: { spec: { type: 'object', properties: { a: { type: 'integer', default: 'x' } } } },
    }),
  ),
  'a stored version cannot be dropped': async (api) => {
    await installCrd(api);
    const renamed = [versionOf('v2', withSpec({ size: { type: 'integer' } }))];
    await api.patch(thingsCrd(api), 'merge', { spec: { versions: renamed } });
  },
});
