import { expect, test } from 'vitest';

import { jsonOfYaml, parseYamlDocuments } from '../review/yaml-text.ts';
import { toYaml } from './yaml.ts';

test.each([
  'Off',
  'on',
  'yes',
  'No',
  'y',
  'null',
  '~',
  '1:30',
  '0o17',
  '017',
  '1_000',
  '2026-01-01',
  '<<',
  '=',
])('kubectl reads the text %s as text', (text) => {
  const value = { [text]: text, list: [text] };
  const [document] = parseYamlDocuments(toYaml(value)).documents;
  expect(jsonOfYaml(document?.node.toJS())).toEqual(value);
});
