import { stringify } from 'yaml';

import { customResourceDefinitions } from '../src/api/crds.ts';

const HEADER = '# Generated from src/api by `npm run generate`. Do not edit.\n';

/** Renders the CRDs as files of deploy/base/crds. */
export function renderCrds(): readonly { readonly file: string; readonly text: string }[] {
  return customResourceDefinitions().map(({ name, manifest }) => ({
    file: `${name}.yaml`,
    // Through JSON: drops the internal markers of TypeBox.
    text:
      HEADER +
      stringify(JSON.parse(JSON.stringify(manifest)), { lineWidth: 120, aliasDuplicateObjects: false }),
  }));
}
