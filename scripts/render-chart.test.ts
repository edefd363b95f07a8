import { Ajv } from 'ajv';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';

import { COMPONENTS } from './chart/parts.ts';
import { renderChart } from './render-chart.ts';

const ROOT = join(import.meta.dirname, '..');
const CHART = join(ROOT, 'deploy', 'chart', 'gatehouse');
const generated = renderChart(ROOT);
const read = (path: string) => readFileSync(join(CHART, path), 'utf8');

test('the chart covers every component of deploy/', () => {
  const folders = readdirSync(join(ROOT, 'deploy', 'components'));
  expect(
    Object.keys(COMPONENTS).toSorted(),
    'scripts/chart/parts.ts says which value turns each component on',
  ).toEqual(folders.toSorted());
});

test('templates use every value, and no undefined value', () => {
  const templates = [
    ...generated.filter(({ path }) => path.includes('/templates/')).map(({ text }) => text),
    // The helper reads all fields of `image` through a variable.
    read('templates/_helpers.tpl').replaceAll('$image', '.Values.image'),
    read('templates/NOTES.txt'),
  ].join('\n');
  const used = new Set([...templates.matchAll(/\.Values\.([\w.]+)/g)].map(([, path]) => path ?? ''));
  used.delete('image');
  const schema = parse(read('values.schema.json')) as Schema; // generated; scripts/generate.test.ts compares it
  expect([...used].toSorted()).toEqual(leaves(schema).toSorted());
});

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
}

const leaves = ({ properties = {} }: Schema): readonly string[] =>
  Object.entries(properties)
    .filter(([key]) => key !== 'global' && key !== 'enabled')
    .flatMap(([key, schema]) => leavesBelow(schema).map((below) => (below === '' ? key : `${key}.${below}`)));

const leavesBelow = ({ properties }: Schema): readonly string[] =>
  properties === undefined
    ? ['']
    : Object.entries(properties).flatMap(([key, schema]) =>
        leavesBelow(schema).map((below) => (below === '' ? key : `${key}.${below}`)),
      );

describe('the schema of the values', () => {
  const validate = new Ajv({ allErrors: true, allowUnionTypes: true }).compile(
    parse(read('values.schema.json')) as object,
  );
  const complaints = (values: unknown): readonly string[] => {
    validate(values);
    return (validate.errors ?? []).map(({ instancePath, message = '' }) => `${instancePath} ${message}`);
  };

  test('accepts values.yaml, with all values and without any one of them', () => {
    const values = parse(read('values.yaml')) as Record<string, unknown>;
    expect(complaints(values)).toEqual([]);
    for (const key of Object.keys(values)) {
      expect(complaints(Object.fromEntries(Object.entries(values).filter(([name]) => name !== key)))).toEqual(
        [],
      );
    }
  });

  const folder = join(ROOT, 'deploy', 'chart', 'values');
  test.each(readdirSync(folder))('accepts %s', (name) => {
    expect(complaints(parse(readFileSync(join(folder, name), 'utf8')))).toEqual([]);
  });

  test('accepts the values in docs/installing.md', () => {
    const page = readFileSync(join(ROOT, 'docs', 'installing.md'), 'utf8');
    const shown = [...page.matchAll(/^```yaml\n# values\.yaml\n([^]*?)^```/gm)].map(([, text = '']) => text);
    expect(shown.length).toBeGreaterThan(0);
    for (const text of shown) expect(complaints(parse(text))).toEqual([]);
  });

  test.each([
    ['the values that Helm adds for dependencies', { global: { registry: 'x' }, enabled: true }],
    ['a registry with a port', { image: { repository: 'registry.example.com:5000/gatehouse' } }],
    ['a digest', { image: { digest: `sha256:${'a'.repeat(64)}` } }],
    ['a percentage', { podDisruptionBudget: { minAvailable: '50%' } }],
  ])('accepts %s', (_what, values) => {
    expect(complaints(values)).toEqual([]);
  });

  test.each([
    ['an unknown value', { replica: 3 }, ' must NOT have additional properties'],
    ['an unknown value in a group', { image: { name: 'x' } }, '/image must NOT have additional properties'],
    ['a tag in the repository', { image: { repository: 'gatehouse:1' } }, '/image/repository must match'],
    ['a digest without its algorithm', { image: { digest: 'a'.repeat(64) } }, '/image/digest must match'],
    ['half a pod', { replicas: 1.5 }, '/replicas must be integer'],
    ['flags in one string', { extraArgs: '--drain-delay=20s' }, '/extraArgs must be array'],
    [
      'more than 100 percent',
      { podDisruptionBudget: { minAvailable: '101%' } },
      '/podDisruptionBudget/minAvailable',
    ],
  ])('refuses %s', (_what, values, complaint) => {
    expect(complaints(values).join('\n')).toContain(complaint);
  });
});
