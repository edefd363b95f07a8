import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';

import { productionPackages } from './production-packages.ts';
import { productionSbom } from './sbom.ts';

const ROOT = join(import.meta.dirname, '..');

/** Licences that allow distribution under Apache-2.0 and require only that their text is included. */
const ALLOWED = new Set([
  ...['0BSD', 'Apache-2.0', 'BlueOak-1.0.0', 'BSD-2-Clause', 'BSD-3-Clause', 'CC0-1.0', 'ISC', 'MIT'],
  ...['PSF-2.0', 'Python-2.0', 'Unlicense'],
]);

/** Evaluates an SPDX expression of names, AND, OR and parentheses. One allowed alternative is enough. */
function isAllowed(expression: string): boolean {
  const words = expression.match(/[()]|[^\s()]+/g) ?? [];
  let at = 0;
  const either = (): boolean => {
    let allowed = both();
    while (words[at] === 'OR') {
      at += 1;
      allowed = both() || allowed;
    }
    return allowed;
  };
  const both = (): boolean => {
    let allowed = one();
    while (words[at] === 'AND') {
      at += 1;
      allowed = one() && allowed;
    }
    return allowed;
  };
  const one = (): boolean => {
    const word = words[at] ?? '';
    at += 1;
    if (word !== '(') return ALLOWED.has(word);
    const allowed = either();
    at += 1; // the closing parenthesis
    return allowed;
  };
  return either() && at === words.length;
}

describe('a licence', () => {
  test.each([
    'MIT',
    '(MIT)',
    'MIT AND ISC',
    'GPL-2.0 OR MIT',
    '(BSD-3-Clause OR GPL-2.0)',
    'MIT AND (ISC OR GPL-3.0)',
  ])('%s is allowed', (expression) => {
    expect(isAllowed(expression)).toBe(true);
  });
  test.each([
    '',
    'GPL-3.0',
    'MIT AND GPL-3.0',
    'SEE LICENSE IN x',
    'UNLICENSED',
    'GPL-2.0 OR (MIT AND AGPL-3.0)',
    'MIT MIT',
  ])('%s is not allowed', (expression) => {
    expect(isAllowed(expression)).toBe(false);
  });
});

interface Sbom {
  readonly bomFormat: string;
  readonly metadata: { readonly component: { readonly name: string } };
  readonly components: readonly Component[];
}

interface Component {
  readonly 'bom-ref': string;
  readonly name: string;
  readonly purl?: string;
  readonly licenses?: readonly {
    readonly license?: { readonly id?: string; readonly name?: string };
    readonly expression?: string;
  }[];
}

/** All licences in the CycloneDX list apply. */
const licenceOf = ({ licenses = [] }: Component): string =>
  licenses
    .map(({ license, expression }) => `(${expression ?? license?.id ?? license?.name ?? ''})`)
    .join(' AND ');

test('the SBOM lists every package of the image, with an allowed licence', async () => {
  const sbom = JSON.parse(await productionSbom(ROOT)) as Sbom; // the next line checks that it is CycloneDX
  expect(sbom.bomFormat).toBe('CycloneDX');
  expect(sbom.metadata.component.name).toBe('@gatehouse-dev/gatehouse');

  const listed = new Set(sbom.components.map(({ name }) => name));
  const installed = productionPackages(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')).map(
    (pack) => pack.split('node_modules/').at(-1) ?? pack,
  );
  expect(installed.filter((name) => !listed.has(name))).toEqual([]);
  expect(sbom.components.filter(({ purl }) => purl === undefined)).toEqual([]);
  const refused = sbom.components.filter((component) => !isAllowed(licenceOf(component)));
  expect(refused.map((component) => `${component['bom-ref']}: ${licenceOf(component)}`)).toEqual([]);
});
