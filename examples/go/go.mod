module undercroft-example

go 1.21
