import type { Command } from 'commander';

import { customResourceDefinitions } from '../src/api/crds.ts';
import { createProgram } from '../src/cli/program.ts';
import { annotationsPage } from './reference/annotations.ts';
import { cliPage } from './reference/cli.ts';
import { kindPage, type Definition } from './reference/kind.ts';

const HEADER = '<!-- Generated from src by `npm run generate`. Do not edit. -->\n';

/** The pages of docs/reference that come from the program itself. */
export function renderReference(
  program: Command = createProgram('gatehouse'),
): readonly { readonly file: string; readonly text: string }[] {
  const pages = [
    annotationsPage(),
    cliPage(program),
    // Through JSON: TypeBox keeps markers of its own on a schema that are not part of it.
    ...customResourceDefinitions().map(
      ({ manifest }) => kindPage(JSON.parse(JSON.stringify(manifest)) as Definition), // made by that function, which a test holds to the CRDs
    ),
  ];
  return pages.map(({ file, title, text }) => ({ file, text: `${HEADER}\n# ${title}\n\n${text}\n` }));
}
