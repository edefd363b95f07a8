import { describe, expect, test } from 'vitest';

import { ConversionFailure } from '../conversion/converter.ts';
import { stringifyJson, type JsonObject } from '../../json/json.ts';
import { createHandlerConverter } from './compile-handler.ts';

interface ServerV1 {
  spec: { size: string };
}
interface ServerV2 {
  spec: { cpu: number; memory: number };
}

const converter = createHandlerConverter(
  'servers',
  { group: 'infra.example.com', resource: 'servers' },
  {
    hub: 'v2',
    versions: {
      v1: {
        toHub: (object: ServerV1) => {
          const [cpu = '0', memory = '0'] = object.spec.size.split('x');
          return { ...object, spec: { cpu: Number(cpu), memory: Number(memory) } };
        },
        fromHub: ({ spec: { cpu, memory }, ...rest }: ServerV2) => ({
          ...rest,
          spec: { size: `${cpu}x${memory}` },
        }),
      },
      v1beta1: {
        toHub: (object: { spec: { cores?: number; cpu?: number } }) => {
          object.spec.cpu = object.spec.cores ?? 0;
          delete object.spec.cores;
        },
        fromHub: (object: ServerV2) => ({ ...object, spec: { cores: object.spec.cpu } }),
      },
    },
  },
);

const signal = new AbortController().signal;
const object = (version: string, spec: object) =>
  ({
    apiVersion: `infra.example.com/${version}`,
    kind: 'Server',
    metadata: {},
    spec,
  }) as unknown as JsonObject;
const convert = (from: JsonObject, to: string) => converter.convert(from, to, signal);
const specOf = (converted: unknown) => (converted as { spec: unknown }).spec;

// The cases of controller-runtime's pkg/webhook/conversion: spoke to hub, hub to spoke, spoke to spoke.
describe('conversion', () => {
  test.each([
    ['spoke to hub', 'v1', { size: '2x4' }, 'v2', { cpu: 2, memory: 4 }],
    ['hub to spoke', 'v2', { cpu: 2, memory: 4 }, 'v1', { size: '2x4' }],
    ['spoke to spoke through the hub', 'v1', { size: '2x4' }, 'v1beta1', { cores: 2 }],
    ['in place', 'v1beta1', { cores: 3 }, 'v2', { cpu: 3 }],
  ])('%s', (_what, from, spec, to, expected) => {
    expect(specOf(convert(object(from, spec), to))).toEqual(expected);
  });

  test('the input object does not change', () => {
    const before = object('v1beta1', { cores: 3 });
    const text = stringifyJson(before);
    expect(convert(before, 'v2')).toBeDefined();
    expect(stringifyJson(before)).toBe(text);
  });

  test.each(['v3', '__proto__', 'constructor', ''])('an unknown version %j is reported', (version) => {
    expect(() => convert(object('v2', {}), version)).toThrow(ConversionFailure);
    expect(() => convert(object(version, {}), 'v2')).toThrow(
      `handler servers does not support version ${JSON.stringify(version)}, only v2, v1, v1beta1`,
    );
  });

  test.each<[string, unknown, string]>([
    ['a promise', Promise.resolve({}), 'a conversion returned an object'],
    ['a string', 'x', 'a conversion returned "x"'],
    ['an object with a date', { spec: { at: new Date(0) } }, 'spec.at: it is a Date'],
  ])('a handler that returns %s fails', (_what, answer, message) => {
    const odd = createHandlerConverter(
      'odd',
      { group: 'a.b', resource: 'c' },
      { hub: 'v2', versions: { v1: { toHub: () => answer as object, fromHub: () => undefined } } },
    );
    expect(() => odd.convert(object('v1', {}), 'v2', signal)).toThrow(message);
  });
});
