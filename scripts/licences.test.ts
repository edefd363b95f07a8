import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { productionPackages } from './production-packages.ts';
import { productionSbom } from './sbom.ts';

const ROOT = join(import.meta.dirname, '..');

const ALLOWED = new Set([
  ...['0BSD', 'Apache-2.0', 'BlueOak-1.0.0', 'BSD-2-Clause', 'BSD-3-Clause', 'CC0-1.0', 'ISC', 'MIT'],
  ...['PSF-2.0', 'Python-2.0', 'Unlicense'],
]);

/** Reads AND before OR and ignores parentheses: it may refuse an allowed SPDX expression, and never the opposite. */
const isAllowed = (expression: string): boolean =>
  expression
    .replaceAll(/[()]/g, '')
    .split(' AND ')
    .every((part) => part.split(' OR ').some((name) => ALLOWED.has(name)));

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
