/** kustomize parses YAML 1.2, and `kubectl apply -f` and Helm YAML 1.1: a text that both read must mean the same. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';

import { jsonOfYaml, parseYamlDocuments } from '../src/cli/review/yaml.ts';

const DEPLOY = join(import.meta.dirname, '..', 'deploy');
const files = readdirSync(DEPLOY, { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.yaml'),
);
/** Without what Helm fills in: lines of template code, and values after a key. */
const withoutCode = (text: string) =>
  text
    .split('\n')
    .filter((line) => !/^\s*\{\{/.test(line) && !/^\s*- .*\{\{/.test(line))
    .map((line) => line.replace(/: .*\{\{.*/, ':'))
    .join('\n');

test.each(files)('%s means the same in YAML 1.1 and 1.2', (name) => {
  const text = readFileSync(join(DEPLOY, name), 'utf8');
  const plain = name.includes('templates') ? withoutCode(text) : text;
  const older = parseYamlDocuments(plain).documents.map(({ node }) => jsonOfYaml(node.toJS()));
  const newer = parseAllDocuments(plain, { merge: true }).map((document) => jsonOfYaml(document.toJS()));
  expect(older).toEqual(newer);
});
