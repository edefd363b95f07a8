/** Mistakes in expressions. */
import { notFound, rule, type Mistake } from './mistake.ts';

const NAME = 'object.metadata.name';

export const EXPRESSIONS: readonly Mistake[] = [
  rule(
    'a misspelt function',
    `${NAME}.startswith("a")`,
    'function startswith not found: did you mean startsWith?',
  ),
  rule(
    'the name that another language has',
    `${NAME}.toLowerCase() == "a"`,
    'function toLowerCase not found: did you mean lowerAscii?',
  ),
  rule(
    'a macro of another language',
    'object.spec.tags.any(t, t == "a")',
    'function any not found: did you mean exists?',
  ),
  rule(
    'a method that is called as a function',
    `startsWith(${NAME}, "a")`,
    'startsWith is a method: write x.startsWith(…)',
  ),
  rule(
    'a function that is called as a method',
    'object.spec.tenant.int() > 1',
    'int is not a method: write int(…)',
  ),
  rule(
    'a method without parentheses',
    'object.spec.tags.size > 0',
    'a list does not have fields: select an element such as [0], or use all() or exists()',
  ),
  rule('a misspelt field', 'object.spec.replica > 1', notFound('replica', 'spec', 'replicas')),
  rule('a misspelt field in `has()`', 'has(object.spec.tennant)', notFound('tennant', 'spec', 'tenant')),
  rule(
    'a misspelt field of a list element',
    'object.spec.ports.all(p, p.numbr > 0)',
    notFound('numbr', 'spec.ports[]', 'number'),
  ),
  rule(
    'a field of a list',
    'object.spec.ports.number > 0',
    'a list does not have fields: select an element such as [0], or use all() or exists()',
  ),
  rule(
    'a misspelt field through a variable',
    'variables.owner.nmae != ""',
    notFound('nmae', 'spec.owner', 'name'),
    'variables: [{ name: owner, expression: object.spec.owner }]\n',
  ),
  rule('`object.` is missing', 'spec.replicas > 1', 'variable spec not found: did you mean object.spec?'),
  rule(
    '`self`, as in a CustomResourceDefinition',
    'self.spec.replicas > 1',
    'variable self not found: did you mean object?',
  ),
  rule('`oldSelf`', 'oldSelf.spec.replicas > 1', 'variable oldSelf not found: did you mean oldObject?'),
  rule(
    'a misspelt variable',
    'variables.limt > 1',
    'variables["limt"] does not exist: declare it in spec.variables, or did you mean variables.limit?',
    'variables: [{ name: limit, expression: "3" }]\n',
  ),
  rule(
    '`variables.` is missing',
    'limit > 1',
    'variable limit not found: did you mean variables.limit?',
    'variables: [{ name: limit, expression: "3" }]\n',
  ),
  rule(
    'a reference that the policy does not have',
    'refs.rack.spec.height > 1',
    'refs["rack"] does not exist: name a reference of spec.validate.references',
  ),
  rule(
    '`params` without `spec.params`',
    'params.data.limit != ""',
    'variable params not found: name the object in spec.params; match conditions cannot use it',
  ),
  rule(
    'a field of `request` that does not exist',
    'request.user.username == "ada"',
    notFound('user', 'request', 'userInfo'),
  ),
  rule(
    'the name `namespace`',
    'namespace == "prod"',
    'reserved identifier: namespace: write object.metadata.namespace or request.namespace',
  ),
  rule(
    'a rule that yields a number',
    'object.spec.replicas',
    'yields an int, but only true or false count here: write a comparison',
  ),
  rule(
    'a rule that yields a text',
    'object.spec.tenant',
    'yields a string, but only true or false count here: write a comparison',
  ),
  rule(
    'a number compared with a text',
    'object.spec.replicas > "1"',
    '> cannot compare (int, string): convert one side, e.g. by int() or string()',
  ),
  rule(
    'a field compared with a value of another type',
    'object.spec.public == "true"',
    '== cannot compare (bool, string): convert one side, e.g. by int() or string()',
  ),
  rule(
    'a text and a number added',
    '"r" + object.spec.replicas == "r1"',
    '+ cannot add (string, int): convert one side, e.g. by string()',
  ),
  rule(
    'a condition that is no comparison',
    'object.spec.public && object.spec.tenant',
    '&& needs Booleans, but got (bool, string)',
  ),
  rule(
    '`in` for a part of a text',
    '"a" in object.spec.tenant',
    'in needs a list or a map on its right side, but got (string, string): a string has contains()',
  ),
  rule(
    '`contains` on a list',
    'object.spec.tags.contains("a")',
    'contains is not a method of list(string): write x in list',
  ),
  rule(
    '`===`',
    'object.spec.tenant === "a"',
    "Syntax error: unexpected character '=': CEL compares by == and !=",
  ),
  rule('`=`', 'object.spec.tenant = "a"', "Syntax error: unexpected character '=': CEL compares by =="),
  rule('`and`', 'object.spec.public and true', "Syntax error: unexpected 'and': write &&"),
  rule('`not`', 'not object.spec.public', "Syntax error: unexpected 'object': write !"),
  rule('`&`', 'object.spec.public & true', "Syntax error: unexpected character '&': write &&"),
  rule(
    'an arrow',
    'object.spec.tags.all(t => t != "")',
    "Syntax error: unexpected character '=': a macro takes a name and an expression: list.all(x, x > 0)",
  ),
  rule(
    'quotes of a word processor',
    'object.spec.tenant == “a”',
    'Syntax error: unexpected character U+201C: write straight quotes',
  ),
  rule(
    'a missing parenthesis',
    '(object.spec.replicas > 1',
    "Syntax error: unexpected end of expression, expected ')'",
  ),
  rule('a string without its end', 'object.spec.tenant == "a', 'Syntax error: the string lacks a closing "'),
  rule(
    'an argument of `has()` that is no field',
    'has(object)',
    'invalid argument to has() macro: has() takes a field, such as has(object.spec.x)',
  ),
  rule(
    'a pattern that is not RE2',
    'object.spec.tenant.matches("(?=a)")',
    'invalid matches argument: error parsing regexp: invalid or unsupported Perl syntax: `(?=`',
  ),
  rule(
    'a duration in words',
    'duration("1 day") < duration("2h")',
    'invalid duration argument: write numbers with units, such as 24h or 1h30m',
  ),
  rule(
    'a macro as a function',
    'exists(object.spec.tags, t, t == "a")',
    'exists is a macro: write list.exists(x, …) with a name and an expression',
  ),
  rule(
    '`None`, `nil` or `True`',
    'object.spec.tenant == None',
    'variable None not found: did you mean null?',
  ),
  rule(
    'a key with a slash, without brackets',
    'object.metadata.labels.example.com/rack == "a"',
    'variable rack not found: a key with - or / needs brackets: x["a/b"]',
  ),
  rule(
    '`request.object`',
    'request.object.spec.replicas > 1',
    'field object not found in request: did you mean object?',
  ),
  rule(
    'an optional field that is compared',
    'object.spec.?tenant == "a"',
    '== cannot compare (optional_type(dyn), string): add .orValue(…) to an optional field',
  ),
  rule(
    'quantities compared by an operator',
    'quantity("1Gi") > quantity(object.spec.tenant)',
    '> cannot compare (kubernetes.Quantity, kubernetes.Quantity): quantities have isGreaterThan(), isLessThan(), compareTo() and add()',
  ),
  rule(
    'a time as a text',
    'object.metadata.creationTimestamp > timestamp("2026-01-01T00:00:00Z")',
    '> cannot compare (string, timestamp): convert with timestamp(…); a time span is duration("1h")',
  ),
  rule(
    '`null` for an absent field',
    'object.spec.tenant != null',
    '!= cannot compare (string, null): has(x) tells whether a field is set',
  ),
  rule('the time of day', 'now() > timestamp("2026-01-01T00:00:00Z")', 'function now not found'),
  rule('a range', '1 < object.spec.replicas < 3', '< cannot compare (bool, int): write a < b && b < c'),
  rule(
    'an element of another type',
    'object.spec.replicas in ["1", "2"]',
    'in cannot compare (int, list(string)): write a value of the type of the elements',
  ),
  rule(
    'a list of results',
    'object.spec.tags.map(t, t == "a")',
    'yields a list(bool), but only true or false count here: use all() or exists()',
  ),
  rule('`not in`', 'object.spec.tenant not in ["a"]', "Syntax error: unexpected 'not': write !(…)"),
  rule(
    "another language's `?.`",
    'object.spec?.tenant == "a"',
    "Syntax error: unexpected end of expression, expected ':': an optional field is x.?field",
  ),
  rule('`if`', 'if (object.spec.public) true else false', 'reserved identifier: if: write condition ? a : b'),
  rule(
    'a backslash in a pattern',
    'object.spec.tenant.matches("\\d")',
    'Syntax error: invalid escape \\d: double the backslash, or write r"…"',
  ),
  rule(
    '`[*]`',
    'object.spec.tags[*] == "a"',
    "Syntax error: unexpected '*': for the elements of a list, use all(), exists() or map()",
  ),
  {
    mistake: 'a message that yields a number',
    line: 'messageExpression: object.spec.replicas',
    spec: 'validate:\n  rules:\n    - expression: object.spec.replicas > 1\n      messageExpression: object.spec.replicas',
    says: ['spec.validate.rules[0].messageExpression: yields an int, but a string is needed here'],
  },
  {
    mistake: 'a default that reads a target',
    line: 'expression: refs.datacenter.spec.tenant',
    spec: 'defaults:\n  - path: spec.tenant\n    expression: refs.datacenter.spec.tenant',
    says: [
      'spec.defaults[0].expression: variable refs is not available here: defaults, mutations and match conditions run before references are checked',
    ],
  },
];
