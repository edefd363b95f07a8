import type { Command } from 'commander';

import { customResourceDefinitions } from '../src/api/crds.ts';
import { createProgram } from '../src/cli/program.ts';
import { annotationsPage } from './reference/annotations.ts';
import { cliPage } from './reference/cli.ts';
import { messagesPage } from './reference/messages.ts';
import { metricsPage } from './reference/metrics.ts';
import { mistakesPage } from './reference/mistakes.ts';
import { kindPage, type Definition } from './reference/kind.ts';

const HEADER = '<!-- Generated from src by `npm run generate`. Do not edit. -->\n';

export function renderReference(
  program: Command = createProgram('gatehouse'),
): readonly { readonly file: string; readonly text: string }[] {
  const pages = [
    annotationsPage(),
    cliPage(program),
    messagesPage(),
    metricsPage(),
    mistakesPage(),
    // Through JSON: drops the internal markers of TypeBox.
    ...customResourceDefinitions().map(
      // customResourceDefinitions() made it, and a test compares it to the CRDs.
      ({ manifest }) => kindPage(JSON.parse(JSON.stringify(manifest)) as Definition),
    ),
  ];
  return pages.map(({ file, title, text }) => ({ file, text: `${HEADER}\n# ${title}\n\n${text}\n` }));
}
