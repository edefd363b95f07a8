import { stringify } from 'yaml';

import { parseJson } from '../../json/json.ts';

/**
 * JSON text as YAML, in the API server's way: keys in order, list items not indented, text that older parsers would take for
 * something else in quotes. Long integers keep their value.
 */
export const yamlOf = (json: string): string =>
  stringify(parseJson(json), {
    sortMapEntries: true,
    indentSeq: false,
    lineWidth: 0,
    compat: 'yaml-1.1',
    aliasDuplicateObjects: false,
  });
