/** Policies and handlers that compile, when there is nothing to review. docs/review.md documents the JSON. */
import type { JunitSuite } from './junit.ts';

export interface Compiled {
  readonly policies: readonly string[];
  readonly handlers: readonly string[];
}

export function compiledText({ policies, handlers }: Compiled): string {
  const parts = [
    ...(policies.length > 0 ? [counted(policies.length, 'policy', 'policies')] : []),
    ...(handlers.length > 0 ? [counted(handlers.length, 'handler', 'handlers')] : []),
  ];
  return `${parts.join(' and ')} ${policies.length + handlers.length === 1 ? 'compiles' : 'compile'}\n`;
}

const counted = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`;

export const compiledJson = ({ policies, handlers }: Compiled, notes: readonly string[]): object => ({
  kind: 'PolicyReview',
  policies,
  handlers,
  notes,
});

export function compiledJunit({ policies, handlers }: Compiled): readonly JunitSuite[] {
  const cases = [...policies, ...handlers.map((name) => `${name} (handler)`)].map((name) => ({
    name: `${name} compiles`,
    className: 'policies',
    output: [],
  }));
  return [{ name: 'gatehouse review', cases }];
}
