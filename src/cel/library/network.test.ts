import { expect, test } from 'vitest';
import { evaluate, failureOf } from '../../../test/support/cel/evaluate.ts';

test.each([
  ['127.0.0.1 ::1 :: 2001:db8::1.2.3.4 1:2:3:4:5:6:7:8 1::2:3:4:5:6:7', true],
  ['127.0.0.256 127.0.0.01 127.0.0 :::1 1::2::3 12345:: fe80::1%eth0 ::ffff:1.2.3.4 ', false],
  ['1:2:3:4:5:6:7:8:9 1:2:3:4:5:6:7::8:9', false],
])('isIP of each of %j is %s', (texts, result) => {
  for (const text of texts.split(' ')) expect(evaluate('isIP(text)', { text }), text).toBe(result);
});

test.each([
  ["ip('2001:DB8::ABCD') == ip('2001:db8:0:0::abcd')", true],
  ["ip('0.0.0.1') == ip('::1')", false],
  ["ip.isCanonical('127.0.0.1')", true],
  ["ip.isCanonical('2001:db8::abcd')", true],
  ["ip.isCanonical('2001:DB8::ABCD')", false],
  ["ip.isCanonical('2001:db8::0:0:0:abcd')", false],
  ["ip('127.0.0.1').family() == 4 && ip('::1').family() == 6", true],
  ["ip('0.0.0.0').isUnspecified() && ip('::').isUnspecified()", true],
  ["ip('127.9.9.9').isLoopback() && ip('::1').isLoopback()", true],
  ["ip('192.168.0.1').isLoopback() || ip('2001:db8::abcd').isLoopback()", false],
  ["ip('224.0.0.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast()", true],
  ["ip('224.0.1.1').isLinkLocalMulticast() || ip('fd00::1').isLinkLocalMulticast()", false],
  ["ip('169.254.169.254').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast()", true],
  ["ip('192.168.0.1').isLinkLocalUnicast() || ip('fd80::1').isLinkLocalUnicast()", false],
  ["ip('192.168.0.1').isGlobalUnicast() && ip('2001:db8::abcd').isGlobalUnicast()", true],
  ["ip('255.255.255.255').isGlobalUnicast() || ip('ff00::1').isGlobalUnicast()", false],
])('%s', (expression, result) => {
  expect(evaluate(expression)).toBe(result);
});

test.each([
  ['1:0:0:2:0:0:0:3', '1:0:0:2::3'],
  ['1:0:0:2:3:0:0:4', '1::2:3:0:0:4'],
  ['0:0:0:0:0:0:0:0', '::'],
  ['1:0:2:3:4:5:6:7', '1:0:2:3:4:5:6:7'],
  ['::0102:304', '::102:304'],
])('the canonical form of %s is %s', (text, canonical) => {
  expect(evaluate('string(ip(text))', { text })).toBe(canonical);
});

test.each([
  ["cidr('192.168.0.0/24').containsIP(ip('192.168.0.1'))", true],
  ["cidr('192.168.0.0/24').containsIP('192.168.1.1')", false],
  ["cidr('0.0.0.0/0').containsIP('::1')", false],
  ["cidr('::/0').containsIP('2001:db8::1')", true],
  ["cidr('192.168.0.0/16').containsCIDR(cidr('192.168.10.0/24'))", true],
  ["cidr('192.168.1.0/24').containsCIDR('192.168.2.0/24')", false],
  ["cidr('192.168.1.0/24').containsCIDR('192.168.1.0/23')", false],
  ["cidr('192.168.0.1/24').ip() == ip('192.168.0.1')", true],
  ["string(cidr('192.168.0.1/24').masked()) == '192.168.0.0/24'", true],
  ["cidr('192.168.0.1/24') == cidr('192.168.0.1/24').masked()", false],
  ["cidr('::1/128').prefixLength() == 128", true],
  ["isCIDR('10.0.0.0/33') || isCIDR('10.0.0.0/08') || isCIDR('10.0.0.0') || isCIDR('10.0.0.0/+8')", false],
])('%s', (expression, result) => {
  expect(evaluate(expression)).toBe(result);
});

test('an invalid address is reported', () => {
  expect(failureOf("ip('fe80::1%eth0')")).toBe('IP address "fe80::1%eth0" with zone value is not allowed');
  expect(failureOf("ip('::ffff:1.2.3.4')")).toBe('IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed');
  expect(failureOf("cidr('10.0.0.0')")).toContain('network address parse error');
});
