/** `-o table|json|yaml`: for people, and for programs. */
import { Option } from 'commander';
import { stringify } from 'yaml';

import { formatJson } from '../review/report/json-report.ts';

export type OutputFormat = 'table' | 'json' | 'yaml';

export const outputOption = (): Option =>
  new Option('-o, --output <format>', 'how to print it').choices(['table', 'json', 'yaml']).default('table');

/** What programs read. */
export function formatData(data: object, format: Exclude<OutputFormat, 'table'>): string {
  return format === 'json' ? formatJson(data) : stringify(data);
}
