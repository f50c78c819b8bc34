--TEST--
The extension declares exactly the classes and methods of undercroft.stub.php
--EXTENSIONS--
undercroft
tokenizer
--FILE--
<?php
require __DIR__ . '/start.inc';
// Declare the stub's classes in another namespace.
$stub = file_get_contents(__DIR__ . '/../undercroft.stub.php');
$stub = preg_replace('~\b(namespace )Undercroft~', '$1Said', $stub);
eval(substr($stub, 5));
/** Returns a method's signature as text. */
function shape(ReflectionMethod $method): string
{
    $parameters = array_map(fn (ReflectionParameter $each) => $each->getType() . ($each->isVariadic() ? ' ...' : ' ')
        . $each->getName() . ($each->isOptional() && !$each->isVariadic() ? ' = '
            . json_encode($each->getDefaultValue()) : ''),
        $method->getParameters());
    $text = $method->getName() . '(' . implode(', ', $parameters) . '): ' . $method->getReturnType();
    return str_replace('Said\\', 'Undercroft\\', $text);
}
$known = 0;
foreach ((new ReflectionExtension('undercroft'))->getClasses() as $class) {
    $said = new ReflectionClass('Said' . substr($class->getName(), 10));
    same($said->isFinal(), $class->isFinal(), $class->getName());
    $parent = $class->getParentClass() ? $class->getParentClass()->getName() : '';
    same(str_replace('Said\\', 'Undercroft\\', $said->getParentClass() ? $said->getParentClass()->getName() : ''),
        $parent, $class->getName());
    $own = fn (ReflectionClass $of) => array_map(shape(...), array_filter($of->getMethods(),
        fn ($each) => $each->class === $of->getName()));
    same(array_values($own($said)), array_values($own($class)), $class->getName());
    $known++;
}
same(11, $known, 'classes');
echo 'done';
?>
--EXPECT--
done
