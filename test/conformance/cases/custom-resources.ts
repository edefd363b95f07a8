import type { Api, Loose } from '../api.ts';
import { group } from '../case.ts';
import { crd, gadget, gadgets, installCrd, thing, things, thingsCrd, widget, widgets } from '../fixtures.ts';

const spec = ({ spec }: Loose) => spec;

/** The answer to the creation of a widget with this spec. */
const judged = (value: object) => async (api: Api) => {
  await api.create(widgets(api), widget('a', value), { show: spec });
};

/** The JSON pointer to the spec fields in the CRD of a case. */
const SPEC_SCHEMA = '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties';

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
  'a number below the minimum is rejected': judged({ size: 0 }),
  'a number above the maximum is rejected': judged({ size: 101 }),
  'a fraction is not an integer': judged({ size: 1.5 }),
  'a number has to fit into its format, and so have its bounds': {
    since: '1.36', // kube-openapi/pkg/validation/validate/validator.go
    run: async (api) => {
      const properties = {
        int: { type: 'integer', format: 'int32' },
        float: { type: 'number', format: 'float' },
        double: { type: 'number', format: 'double' },
        large: { type: 'integer', maximum: 9223372036854775000 },
        larger: { type: 'integer', maximum: 2 ** 63 },
      };
      const spec = { type: 'object', properties };
      await installCrd(
        api,
        crd(api, {}, { schema: { openAPIV3Schema: { type: 'object', properties: { spec } } } }),
      );
      for (const value of [
        { int: 2 ** 31 },
        { float: 1e39 },
        { int: 2 ** 31 - 1, float: 1e38, double: 1e300, large: 1 },
        { larger: 1 },
      ])
        await api.create(things(api), thing(api, 'a', value), { show: ({ kind }) => kind });
    },
  },
  'a number may be an integer': judged({ ratio: 2 }),
  'a string is not a number': judged({ size: '1' }),
  'a number is not a string': judged({ code: 1 }),
  'a string is not a boolean': judged({ on: 'true' }),
  'a list is not an object': judged({ owner: [] }),
  'an object is not a list': judged({ steps: {} }),
  'a value outside the enumeration is rejected': judged({ tier: 'bronze' }),
  'a string that does not match the pattern is rejected': judged({ code: 'ABC' }),
  'a required field is required': judged({ owner: {} }),
  'list items are validated individually': {
    run: judged({ steps: ['one', 2, true] }),
  },
  'map values are validated': judged({ notes: { a: 'b', c: 1 } }),
  'every fault is a cause': {
    run: judged({ size: 0, code: 'ABC' }),
    // The order of causes varies.
    normalise: (transcript) => {
      const [{ status, answer }] = transcript as unknown as [{ status: number; answer: Loose }];
      const { causes } = answer.details as { causes: readonly { field: string }[] };
      return { status, causes: causes.toSorted((a, b) => a.field.localeCompare(b.field)) };
    },
  },
  'values in a set must be unique': judged({ tags: ['a', 'a'] }),
  'keys in a list of type map must be unique': judged({ ports: [{ name: 'a' }, { name: 'a' }] }),
  'an embedded resource needs apiVersion and kind': judged({ template: { metadata: { name: 'a' } } }),
  'an embedded resource keeps its content': judged({
    template: { apiVersion: 'v1', kind: 'Any', metadata: { name: 'a', labels: { b: 'c' } }, content: 1 },
  }),
  'a spec of the wrong type is rejected': async (api) => {
    await api.create(widgets(api), { ...widget('a'), spec: 'none' });
  },
  'metadata of the wrong type is rejected': {
    run: async (api) => {
      await api.create(widgets(api), widget('a', {}, { labels: { a: 1 } }));
    },
    normalise: (transcript) =>
      transcript.map((exchange) => ('status' in exchange ? exchange.status : exchange)),
  },
  'unknown top-level fields are pruned': async (api) => {
    await api.create(widgets(api), { ...widget('a'), extra: { a: 1 } });
  },
  'a port is a number or a string': async (api) => {
    for (const [index, port] of [80, 'http', true].entries())
      await api.create(gadgets(), gadget(`${api.id}-${index}`, { spec: { port } }), { show: spec });
  },
  'large integers keep their value': async (api) => {
    const name = `${api.id}-a`;
    const { apiVersion, kind } = gadget(name);
    const body = `{"apiVersion":"${apiVersion}","kind":"${kind}","metadata":{"name":"${name}"},"spec":{"n":9007199254740993}}`;
    await api.given.create(gadgets(), body);
    // JSON.parse in the harness would round it, so a JSON Patch test lets the server compare.
    const test = `[{"op":"test","path":"/spec/n","value":9007199254740993}]`;
    await api.patch(gadgets(`/${name}`), 'json', test, { show: ({ kind }) => kind });
  },
});
