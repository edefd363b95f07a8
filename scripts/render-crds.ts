import { customResourceDefinitions } from '../src/api/crds.ts';
import { toYaml } from '../src/cli/terminal/output.ts';

const HEADER = '# Generated from src/api by `npm run generate`. Do not edit.\n';

export function renderCrds(): readonly { readonly file: string; readonly text: string }[] {
  return customResourceDefinitions().map(({ name, manifest }) => ({
    file: `${name}.yaml`,
    // Through JSON: drops the internal markers of TypeBox.
    text:
      HEADER + toYaml(JSON.parse(JSON.stringify(manifest)), { lineWidth: 120, aliasDuplicateObjects: false }),
  }));
}
