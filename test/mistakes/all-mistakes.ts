import { EXPRESSIONS } from './expressions.ts';
import { FIELDS } from './fields.ts';
import type { Mistake } from './mistake.ts';
import { SCOPE } from './scope.ts';

export const MISTAKES: readonly Mistake[] = [...FIELDS, ...EXPRESSIONS, ...SCOPE];
