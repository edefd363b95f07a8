import { compileCel } from '../../../src/cel/cel.ts';

export const evaluate = (expression: string, bindings: Readonly<Record<string, unknown>> = {}): unknown =>
  compileCel(expression, Object.keys(bindings)).evaluate(bindings);

export function failureOf(expression: string, bindings: Readonly<Record<string, unknown>> = {}): string {
  try {
    evaluate(expression, bindings);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  throw new Error(`${expression} does not fail`);
}
