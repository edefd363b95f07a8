import { CelError, noSuchOverload } from './cel-error.ts';
import { literalProblem, withPatternCost } from './checked-arguments.ts';
import { compileIndex, isIndex } from './compile-index.ts';
import { compileConditional, compileLogical, isLogical } from './compile-logic.ts';
import { qualifiedName } from './compile-select.ts';
import type { Compiled, Compiler, Scope } from './compiler.ts';
import type { Call } from './syntax/expression.ts';
import { charge, type Step } from './frame.ts';
import { functions } from './functions.ts';

import { callStep, resolveOverloads } from './overloads.ts';
import { isOptional, typeNameOf } from './values.ts';

/** A call of an operator, a function or a method. */
export function compileCall(call: Call, scope: Scope, compiler: Compiler): Compiled {
  const { name } = call;
  if (isLogical(name)) return compileLogical(call, name, scope, compiler);
  if (isIndex(name)) return compileIndex(call, name, scope, compiler);
  if (name === '_?_:_') return compileConditional(call, scope, compiler);
  return compileFunction(inNamespace(call), scope, compiler);
}

/** `lists.range(3)` looks like a method of a variable `lists`; it is the function `lists.range`. */
function inNamespace(call: Call): Call {
  const namespace = call.target === undefined ? undefined : qualifiedName(call.target);
  const name = `${namespace ?? ''}.${call.name}`;
  return functions.has(name) ? { ...call, name, target: undefined } : call;
}

function compileFunction(call: Call, scope: Scope, compiler: Compiler): Compiled {
  const { name, target, at } = call;
  const inner = name === 'format' && target !== undefined ? { ...scope, mixed: true } : scope;
  const receiver = target === undefined ? [] : [compiler.compile(target, inner)];
  const parts = [...receiver, ...call.arguments.map((part) => compiler.compile(part, inner))];
  const overloads = functions.get(name);
  if (overloads === undefined) throw compiler.fail(`undeclared reference to '${name}' (in container '')`, at);
  const member = target !== undefined;
  const types = parts.map(({ type }) => type);
  const styled = overloads.filter((overload) => overload.member === member);
  const resolution = resolveOverloads({ name, member, types, at }, styled, compiler);
  const [problem, argument] = literalProblem(call) ?? [];
  if (problem !== undefined) throw compiler.fail(problem, argument?.at ?? at);
  const steps = withPatternCost(
    call,
    parts.map(({ step }) => step),
  );
  const [left, right] = steps;
  if ((name === 'or' || name === 'orValue') && left !== undefined && right !== undefined) {
    return { type: resolution.type, step: alternativeStep(name, left, right) };
  }
  return { type: resolution.type, step: callStep(name, resolution, steps) };
}

/** The alternative of an optional is looked at only when it has no value. */
function alternativeStep(name: 'or' | 'orValue', left: Step, right: Step): Step {
  return (frame) => {
    charge(frame, 1);
    const value = left(frame);
    if (!isOptional(value)) throw noSuchOverload(name);
    if (value.value === undefined) return alternative(name, right(frame));
    return name === 'or' ? value : value.value;
  };
}

function alternative(name: 'or' | 'orValue', value: unknown): unknown {
  if (name === 'or' && !isOptional(value)) throw new CelError(`no such overload: or(${typeNameOf(value)})`);
  return value;
}
